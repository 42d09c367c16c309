/**
 * The protobuf wire format (protobuf.dev/programming-guides/encoding), as much of it as etcd's transactions and
 * Felix's frames need: read and written in place, without an object per field, since both are on the hot path.
 */

export class DecodeError extends Error {
  readonly code = 'PROTOBUF_MALFORMED';
}

export const WireType = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

/** A byte order mark is a character like others: without it, two different ids would read as one. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Walks over the fields of one message. Every read is checked against the end; a DecodeError is all it throws. */
export class Reader {
  pos = 0;
  end = 0;
  #bytes: Uint8Array;

  constructor(bytes: Uint8Array = new Uint8Array(), start = 0, end: number = bytes.length) {
    this.#bytes = bytes;
    this.pos = start;
    this.end = end;
  }

  /** Starts over with another message, so that one reader serves many. */
  reset(bytes: Uint8Array, start = 0, end: number = bytes.length): this {
    this.#bytes = bytes;
    this.pos = start;
    this.end = end;
    return this;
  }

  get done(): boolean {
    return this.pos >= this.end;
  }

  /** The next field's number and wire type (number * 8 + type). */
  tag(): number {
    const tag = this.varint();
    if (tag < 8 || tag > 0xffffffff)
      throw new DecodeError(`field number ${Math.floor(tag / 8)} out of range`);
    return tag;
  }

  /** An unsigned varint. One above 2^53 loses its low bits: nothing here has such numbers but a negative int64, which nobody reads. */
  varint(): number {
    let value = 0;
    let factor = 1;
    for (let i = 0; i < 10; i++) {
      if (this.pos >= this.end) throw new DecodeError('a varint cut short');
      const byte = this.#bytes[this.pos++]!;
      if (i === 9 && byte > 1) throw new DecodeError('a varint of more than 64 bits');
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    throw new DecodeError('a varint longer than ten bytes');
  }

  /**
   * Enters a length-delimited field: returns its end and leaves pos at its start. To read a message within, set `end` to
   * it until `done`, then back.
   */
  enter(): number {
    const length = this.varint();
    const end = this.pos + length;
    if (end > this.end)
      throw new DecodeError(`a field of ${length} bytes where ${this.end - this.pos} are left`);
    return end;
  }

  /** A view of a length-delimited field, not a copy. */
  bytes(): Uint8Array {
    const end = this.enter();
    const view = this.#bytes.subarray(this.pos, end);
    this.pos = end;
    return view;
  }

  string(): string {
    try {
      return utf8.decode(this.bytes());
    } catch (cause) {
      if (cause instanceof DecodeError) throw cause;
      throw new DecodeError('a string that is no UTF-8', { cause });
    }
  }

  double(): number {
    const at = this.pos;
    this.#advance(8);
    return new DataView(this.#bytes.buffer, this.#bytes.byteOffset + at, 8).getFloat64(0, true);
  }

  /** Passes over a field of which only the tag was read. Groups may nest as deep as they like. */
  skip(tag: number): void {
    let depth = 0;
    let current = tag;
    for (;;) {
      switch (current & 7) {
        case WireType.varint:
          this.varint();
          break;
        case WireType.fixed64:
          this.#advance(8);
          break;
        case WireType.bytes:
          this.pos = this.enter();
          break;
        case WireType.startGroup:
          depth++;
          break;
        case WireType.endGroup:
          depth--;
          if (depth < 0) throw new DecodeError('the end of a group that never began');
          break;
        case WireType.fixed32:
          this.#advance(4);
          break;
        default:
          throw new DecodeError(`wire type ${current & 7}`);
      }
      if (depth === 0) return;
      current = this.tag();
    }
  }

  #advance(length: number): void {
    if (this.pos + length > this.end) throw new DecodeError('a fixed-size field cut short');
    this.pos += length;
  }
}

/** Bytes that a varint takes; 0 <= n <= 2^53. */
export function varintLength(n: number): number {
  let length = 1;
  for (let rest = n; rest >= 128; rest = Math.floor(rest / 128)) length++;
  return length;
}

/** Writes a varint and returns the position after it. */
export function writeVarint(target: Uint8Array, at: number, n: number): number {
  let rest = n;
  let position = at;
  while (rest >= 128) {
    target[position++] = (rest % 128) | 0x80;
    rest = Math.floor(rest / 128);
  }
  target[position++] = rest;
  return position;
}

const encoder = new TextEncoder();

/** `number` with a value of that wire type, as one varint field. */
export function varintField(number: number, value: number): Uint8Array {
  const tag = number * 8 + WireType.varint;
  const field = new Uint8Array(varintLength(tag) + varintLength(value));
  writeVarint(field, writeVarint(field, 0, tag), value);
  return field;
}

/** A length-delimited field of the parts one after another: a string, bytes, or a message made of fields. */
export function bytesField(number: number, ...parts: readonly (Uint8Array | string)[]): Uint8Array {
  const encoded = parts.map((part) => (typeof part === 'string' ? encoder.encode(part) : part));
  const length = encoded.reduce((sum, part) => sum + part.length, 0);
  const tag = number * 8 + WireType.bytes;
  const field = new Uint8Array(varintLength(tag) + varintLength(length) + length);
  let at = writeVarint(field, writeVarint(field, 0, tag), length);
  for (const part of encoded) {
    field.set(part, at);
    at += part.length;
  }
  return field;
}
