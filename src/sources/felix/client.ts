/** The other end of the feed socket: for storms, for felix-driver, for tests. */
import { createConnection, type Socket } from 'node:net';
import { FrameSplitter } from './frames.js';
import { decodeAck } from './messages.js';

/** Frames are gathered to writes of about this size. */
const writeBytes = 64 * 1024;

export class FeedClient {
  readonly #socket: Socket;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #scheduled = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Rejects with the connection's error. `onAck`: everything up to this sequence number is accepted. */
  static async connect(
    path: string,
    events: { onAck?: (sequenceNumber: number) => void; onClose?: () => void } = {},
  ): Promise<FeedClient> {
    const socket = createConnection(path);
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    const splitter = new FrameSplitter(1024, (message) => events.onAck?.(decodeAck(message)));
    socket.on('data', (chunk) => splitter.push(chunk));
    socket.on('error', () => socket.destroy()); // 'close' follows
    socket.on('close', () => events.onClose?.());
    return new FeedClient(socket);
  }

  /** False: wait for drained() before the next one. */
  send(frame: Buffer): boolean {
    this.#gathered.push(frame);
    this.#gatheredBytes += frame.length;
    if (this.#gatheredBytes >= writeBytes) {
      this.flush();
    } else if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(() => this.flush());
    }
    return !this.#socket.writableNeedDrain;
  }

  flush(): void {
    this.#scheduled = false;
    if (this.#gatheredBytes === 0 || this.#socket.destroyed) return;
    this.#socket.write(Buffer.concat(this.#gathered, this.#gatheredBytes));
    this.#gathered = [];
    this.#gatheredBytes = 0;
  }

  drained(): Promise<void> {
    if (!this.#socket.writableNeedDrain || this.#socket.destroyed) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        this.#socket.off('drain', done);
        this.#socket.off('close', done);
        resolve();
      };
      this.#socket.on('drain', done);
      this.#socket.on('close', done);
    });
  }

  /** Writes what is left and closes. */
  async end(): Promise<void> {
    this.flush();
    if (this.#socket.destroyed) return;
    await new Promise<void>((resolve) => {
      this.#socket.once('close', () => resolve());
      this.#socket.end();
    });
  }

  destroy(): void {
    this.#socket.destroy();
  }
}
