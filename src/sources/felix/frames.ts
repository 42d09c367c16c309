/**
 * Felix's framing on pipes and on the feed socket: a length in eight bytes, little endian, then a protobuf message
 * (Calico's felix/dataplane/external/ext_dataplane.go).
 */
export const headerBytes = 8;

export class FrameError extends Error {
  readonly code: 'FRAME_TOO_LONG' | 'FRAME_CUT_SHORT';

  constructor(code: FrameError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

/** Where a frame's message lies, until the call returns. A view of it would be an object for each frame, on the hot path. */
export type OnFrame = (bytes: Uint8Array, start: number, end: number) => void;

/** Splits a stream of chunks into frames. A frame within one chunk is not copied. */
export class FrameSplitter {
  readonly #frameBytesMax: number;
  readonly #onFrame: OnFrame;
  /** The beginning of a frame whose end has not come. */
  #partial: Buffer | null = null;
  #filled = 0;

  constructor(frameBytesMax: number, onFrame: OnFrame) {
    this.#frameBytesMax = frameBytesMax;
    this.#onFrame = onFrame;
  }

  /** Whether a frame has begun and not ended. */
  get midFrame(): boolean {
    return this.#partial !== null;
  }

  /** Hands over every frame that the chunk completes. Throws a FrameError, before anything of that length is allocated. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#partial !== null) {
        at = this.#fill(chunk, at);
        continue;
      }
      if (chunk.length - at < headerBytes) {
        this.#begin(headerBytes, chunk, at);
        return;
      }
      const length = this.#allowedLengthAt(chunk, at);
      if (chunk.length - at < headerBytes + length) {
        this.#begin(headerBytes + length, chunk, at);
        return;
      }
      at += headerBytes + length;
      this.#onFrame(chunk, at - length, at);
    }
  }

  /** The stream has ended. Throws a FrameError if it did so within a frame. */
  end(): void {
    if (this.#partial !== null) {
      throw new FrameError(
        'FRAME_CUT_SHORT',
        `the stream ended ${this.#filled} bytes into a frame of ${this.#partial.length}`,
      );
    }
  }

  #begin(size: number, chunk: Buffer, at: number): void {
    this.#partial = Buffer.allocUnsafe(size);
    this.#filled = chunk.copy(this.#partial, 0, at);
  }

  #fill(chunk: Buffer, at: number): number {
    const partial = this.#partial!;
    const copied = chunk.copy(
      partial,
      this.#filled,
      at,
      Math.min(chunk.length, at + partial.length - this.#filled),
    );
    this.#filled += copied;
    if (this.#filled < partial.length) return at + copied;
    if (partial.length === headerBytes) {
      const length = this.#allowedLengthAt(partial, 0);
      if (length > 0) {
        this.#begin(headerBytes + length, partial, 0);
        return at + copied;
      }
    }
    this.#partial = null;
    this.#onFrame(partial, headerBytes, partial.length);
    return at + copied;
  }

  #allowedLengthAt(bytes: Buffer, at: number): number {
    const length = lengthAt(bytes, at);
    if (length > this.#frameBytesMax) {
      throw new FrameError(
        'FRAME_TOO_LONG',
        `a frame of ${length} bytes, where ${this.#frameBytesMax} are allowed`,
      );
    }
    return length;
  }
}

/** What the header there announces; loses its low bits above 2^53, where no frame is. */
export function lengthAt(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
}

/** A message as a frame. */
export function frame(...parts: readonly Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = Buffer.allocUnsafe(headerBytes + length);
  bytes.writeUInt32LE(length, 0);
  bytes.writeUInt32LE(0, 4);
  let at = headerBytes;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
