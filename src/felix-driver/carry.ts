/** Carries bytes from one pipe to another, unchanged, as fast as they are taken: nothing is kept but what is on its way. */
import type { Socket } from 'node:net';

export class Carrier {
  /** The writer has closed and all is written; or the reader has gone. */
  readonly done: Promise<void>;
  #taken = 0;
  #written = 0;

  /**
   * `look` sees each chunk before it passes; it must not throw or change it. Each side sees of the other what it would
   * see without anybody between them: the reader the end of what was written, the writer that its reader is gone.
   */
  constructor(from: Socket, to: Socket, look: (chunk: Buffer) => void) {
    this.done = new Promise((resolve) => {
      from.on('data', (chunk: Buffer) => {
        look(chunk);
        this.#taken += chunk.length;
        const more = to.write(chunk, () => {
          this.#written += chunk.length;
        });
        if (!more) from.pause();
      });
      to.on('drain', () => from.resume());
      from.on('end', () => to.end());
      from.on('error', () => to.end()); // of a writer that is gone: the end, to a reader
      to.on('error', () => from.destroy()); // its 'close' follows
      to.on('close', () => {
        from.destroy();
        resolve();
      });
      to.on('finish', resolve);
    });
  }

  /** Bytes that the reader's pipe has taken. */
  get written(): number {
    return this.#written;
  }

  /** Bytes that were read and that the reader's pipe has not taken yet. */
  get underWay(): number {
    return this.#taken - this.#written;
  }
}
