/** The other end of the feed socket: for storms, for felix-driver, for tests. */
import { createConnection, type Socket } from 'node:net';
import { FrameSplitter } from './frames.js';
import { decodeAck } from './messages.js';

/** Frames are gathered to writes of about this size. */
const writeBytes = 64 * 1024;
/** Of what comes back: acknowledgements only. */
const frameBytesMax = 1024;
const readBytes = 4096;

export interface FeedClientEvents {
  /** Everything up to this sequence number is accepted. */
  readonly onAck?: (sequenceNumber: number) => void;
  /** The connection is gone; with an error where it broke, or where what came back was no acknowledgement. */
  readonly onClose?: (error: Error | null) => void;
}

/** Does not connect again by itself: what to tell then only its user knows. */
export class FeedClient {
  readonly #socket: Socket;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #scheduled = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Rejects with the connection's error. */
  static async connect(path: string, { onAck, onClose }: FeedClientEvents = {}): Promise<FeedClient> {
    let broken: Error | null = null;
    const splitter = new FrameSplitter(frameBytesMax, (bytes, start, end) => {
      const sequenceNumber = decodeAck(bytes.subarray(start, end));
      if (sequenceNumber > 0) onAck?.(sequenceNumber);
    });
    // One buffer for all that is read: node would allocate 64 KiB for each of these small messages.
    const buffer = Buffer.allocUnsafeSlow(readBytes);
    const callback = (length: number): boolean => {
      try {
        splitter.push(buffer.subarray(0, length));
      } catch (error) {
        socket.destroy(error as Error);
      }
      return true;
    };
    // Half open: end() hears the acknowledgements that are still to come.
    const socket = createConnection({ path, allowHalfOpen: true, onread: { buffer, callback } });
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve();
      });
      socket.once('error', reject);
    });
    socket.on('end', () => socket.end());
    socket.on('error', (error) => {
      broken = error; // 'close' follows
    });
    socket.on('close', () => onClose?.(broken));
    return new FeedClient(socket);
  }

  /**
   * One whole frame (frames.ts), or several. They must not change. False: wait for drained() before the next one. One that
   * is gone takes it and drops it.
   */
  send(frames: Buffer): boolean {
    if (this.#socket.destroyed) return true;
    this.#gathered.push(frames);
    this.#gatheredBytes += frames.length;
    if (this.#gatheredBytes >= writeBytes) {
      this.flush();
    } else if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(() => {
        this.#scheduled = false;
        this.flush();
      });
    }
    return !this.#socket.writableNeedDrain;
  }

  flush(): void {
    if (this.#gatheredBytes === 0) return;
    const bytes =
      this.#gathered.length === 1 ? this.#gathered[0]! : Buffer.concat(this.#gathered, this.#gatheredBytes);
    this.#gathered = [];
    this.#gatheredBytes = 0;
    if (this.#socket.writable) this.#socket.write(bytes);
  }

  /** Resolves when send() may be called again, or the connection is gone. */
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

  /** Writes what is left, hears the acknowledgements of it, and closes. */
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
