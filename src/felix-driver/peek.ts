/**
 * Looks at a stream of Felix's frames that passes by, whatever their size: at each one's length and first bytes, and at
 * the whole of those that matter. Never throws, and holds no more than one frame that matters.
 */
import { headerBytes, lengthAt } from '../sources/felix/frames.js';
import { DecodeError, Reader, WireType } from '../wire/protobuf.js';

/** Protobuf's own limit of a message. What claims to be longer is no frame: the stream is not what it is taken for. */
const messageBytesMax = 2 ** 31 - 1;
/** A number (tag and varint: 11 bytes at most), then the payload's tag. */
const prefixBytes = 24;

export interface PeekOptions {
  /** The numbers of the payloads that matter. */
  readonly fields: ReadonlySet<number>;
  /** Frames that matter are looked at up to this. */
  readonly frameBytesMax: number;
  /** A message that matters; a view that is overwritten later. */
  readonly onMessage: (message: Uint8Array) => void;
  /** One that matters is too long to be looked at. */
  readonly onTooLong: (field: number, length: number) => void;
  /** These are no frames; nothing is looked at any more. `length` is what the last one claims. */
  readonly onLost: (length: number) => void;
}

export class FramePeeker {
  readonly #options: PeekOptions;
  /** The beginning of a frame of which more is needed; a frame's whole, once it is known to matter. */
  #held: Buffer = Buffer.allocUnsafe(headerBytes + prefixBytes);
  readonly #small = this.#held;
  #filled = 0;
  /** How much of `held` is to be filled until it says more. */
  #needed = headerBytes;
  /** Bytes of a frame that does not matter, still to come. */
  #passing = 0;
  #lost = false;

  constructor(options: PeekOptions) {
    this.#options = options;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#lost) {
      if (this.#passing > 0) {
        const passed = Math.min(this.#passing, chunk.length - at);
        this.#passing -= passed;
        at += passed;
      } else {
        at = this.#filled === 0 ? this.#look(chunk, at) : this.#fill(chunk, at);
      }
    }
  }

  /** A frame begins there. Returns the position after what was used. */
  #look(chunk: Buffer, at: number): number {
    if (chunk.length - at < headerBytes) return this.#fill(chunk, at);
    const length = lengthAt(chunk, at);
    const body = at + headerBytes;
    if (length > messageBytesMax || chunk.length - body < Math.min(length, prefixBytes))
      return this.#fill(chunk, at);
    const field = payloadField(chunk, body, Math.min(length, prefixBytes));
    if (!this.#matters(field, length)) {
      this.#passing = length;
      return body;
    }
    if (chunk.length - body < length) {
      this.#hold(length);
      return this.#fill(chunk, at);
    }
    this.#options.onMessage(chunk.subarray(body, body + length));
    return body + length;
  }

  #fill(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.#needed - this.#filled);
    this.#filled += chunk.copy(this.#held, this.#filled, at, end);
    if (this.#filled === this.#needed) this.#judge();
    return end;
  }

  /** As much is held as was needed: the header, then the first bytes, then all. */
  #judge(): void {
    const length = lengthAt(this.#held, 0);
    if (length > messageBytesMax) {
      this.#lost = true;
      this.#options.onLost(length);
      return;
    }
    const prefix = Math.min(length, prefixBytes);
    if (this.#needed < headerBytes + prefix) {
      this.#needed = headerBytes + prefix;
    } else if (this.#held !== this.#small) {
      const message = this.#held.subarray(headerBytes);
      this.#startOver();
      this.#options.onMessage(message);
    } else if (this.#matters(payloadField(this.#held, headerBytes, prefix), length)) {
      this.#hold(length);
      if (this.#filled === this.#needed) this.#judge();
    } else {
      this.#passing = length - prefix;
      this.#startOver();
    }
  }

  #matters(field: number, length: number): boolean {
    if (!this.#options.fields.has(field)) return false;
    if (length <= this.#options.frameBytesMax) return true;
    this.#options.onTooLong(field, length);
    return false;
  }

  #hold(length: number): void {
    this.#needed = headerBytes + length;
    const whole = Buffer.allocUnsafeSlow(this.#needed);
    this.#held.copy(whole, 0, 0, this.#filled);
    this.#held = whole;
  }

  #startOver(): void {
    this.#held = this.#small;
    this.#filled = 0;
    this.#needed = headerBytes;
  }
}

/**
 * The number of the first field that is no number itself: a message's payload. Felix and its drivers write one, in front
 * of it or behind it the sequence number, and that is all. 0: none within those bytes.
 */
function payloadField(bytes: Uint8Array, at: number, length: number): number {
  const reader = new Reader(bytes, at, at + length);
  try {
    while (!reader.done) {
      const tag = reader.tag();
      if ((tag & 7) === WireType.bytes) return tag >>> 3;
      reader.skip(tag);
    }
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
  }
  return 0;
}
