/**
 * Many small byte strings, by number, one behind the other in one buffer: as objects of their own they would cost the
 * garbage collector more than all else, and each copy two more looks at memory.
 */

const startBytes = 64 * 1024;
const startNumbers = 1024;

export class Pieces {
  #bytes = new DataView(new ArrayBuffer(startBytes));
  #used = 0;
  /** Of those that were deleted. */
  #wasted = 0;
  #startOf = new Int32Array(startNumbers);
  /** 0: there is none. */
  #lengthOf = new Uint16Array(startNumbers);

  /** 0: there is none of that number. */
  lengthOf(number: number): number {
    return number < this.#lengthOf.length ? this.#lengthOf[number]! : 0;
  }

  /** It has 1 to 65,535 bytes, and there is none of that number. */
  add(number: number, piece: Uint8Array): void {
    this.#makeRoom(number, piece.length);
    new Uint8Array(this.#bytes.buffer).set(piece, this.#used);
    this.#startOf[number] = this.#used;
    this.#lengthOf[number] = piece.length;
    this.#used += piece.length;
  }

  /** Puts it there; returns the offset behind it. */
  copy(number: number, target: DataView, at: number): number {
    const from = this.#startOf[number]!;
    const length = this.#lengthOf[number]!;
    const bytes = this.#bytes;
    let i = 0;
    for (; i + 4 <= length; i += 4) target.setInt32(at + i, bytes.getInt32(from + i, true), true);
    for (; i < length; i++) target.setUint8(at + i, bytes.getUint8(from + i));
    return at + length;
  }

  /** Where little would be left, all others go with it. */
  delete(number: number): void {
    this.#wasted += this.lengthOf(number);
    if (number < this.#lengthOf.length) this.#lengthOf[number] = 0;
    if (this.#wasted <= this.#used / 2) return;
    this.#lengthOf.fill(0);
    this.#used = 0;
    this.#wasted = 0;
  }

  #makeRoom(number: number, bytes: number): void {
    const { buffer, byteLength } = this.#bytes;
    if (this.#used + bytes > byteLength) {
      const larger = new Uint8Array(2 * byteLength);
      larger.set(new Uint8Array(buffer, 0, this.#used));
      this.#bytes = new DataView(larger.buffer);
    }
    if (number < this.#lengthOf.length) return;
    const numbers = 2 ** Math.ceil(Math.log2(number + 1));
    const [startOf, lengthOf] = [this.#startOf, this.#lengthOf];
    this.#startOf = new Int32Array(numbers);
    this.#startOf.set(startOf);
    this.#lengthOf = new Uint16Array(numbers);
    this.#lengthOf.set(lengthOf);
  }
}
