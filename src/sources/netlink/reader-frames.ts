/** What the reader's process says (reader-process.ts): length u32, kind u8, content; little-endian. */
export const FrameKind = {
  /** The socket's port u32 and the size of its receive buffer u32. It is subscribed: from here on nothing is missing. */
  hello: 1,
  message: 2,
  /** Messages were dropped before the next one. */
  overrun: 3,
  /** It cannot go on, and why. */
  failed: 4,
} as const;
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

const headerBytes = 5;

/** Cuts a stream into frames. Their content is valid until the callback returns. */
export class FrameSplitter {
  #rest: Buffer = Buffer.alloc(0);
  readonly #onFrame: (kind: number, content: Buffer) => void;

  constructor(onFrame: (kind: number, content: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (at + headerBytes <= bytes.length) {
      const end = at + headerBytes + bytes.readUInt32LE(at);
      if (end > bytes.length) break;
      this.#onFrame(bytes[at + 4]!, bytes.subarray(at + headerBytes, end));
      at = end;
    }
    this.#rest = bytes.subarray(at);
  }
}
