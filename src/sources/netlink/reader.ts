/** The reader's process as seen from here: see reader-process.ts. One of these is one process, from start to end. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { FrameKind, FrameSplitter } from './reader-frames.js';

export interface ReaderEvents {
  /** The socket is open and subscribed. `bufferBytes` is what the kernel granted, in what it was asked in. */
  open(port: number, bufferBytes: number): void;
  message(datagram: Buffer): void;
  /** Messages were dropped. */
  overrun(): void;
  /** It ended and was not told to: by an overrun, or for this reason. */
  ended(why: 'overrun' | Error): void;
}

export class Reader {
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  #stopped = false;
  #failure = '';

  constructor(receiveBufferBytes: number, events: ReaderEvents) {
    const file = fileURLToPath(new URL('reader-process.js', import.meta.url));
    // Its heap holds next to nothing: a small one is collected before it grows.
    const args = ['--max-semi-space-size=2', '--max-old-space-size=256', file, String(receiveBufferBytes)];
    // What goes wrong is said in a frame; what the package says when it gives up says nothing.
    this.#child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'ignore'], env: {} });
    const splitter = new FrameSplitter((kind, content) => {
      if (this.#stopped) return;
      if (kind === FrameKind.message) events.message(content);
      else if (kind === FrameKind.overrun) events.overrun();
      // The kernel doubles what it is asked for, to have room for its own bookkeeping.
      else if (kind === FrameKind.hello) events.open(content.readUInt32LE(0), content.readUInt32LE(4) / 2);
      else if (kind === FrameKind.failed) this.#failure = content.toString('utf8');
    });
    this.#child.stdout!.on('data', (chunk: Buffer) => splitter.push(chunk));
    this.#child.stdin!.on('error', () => undefined); // it ended: 'close' says so
    this.#exited = new Promise((resolve) => {
      const end = (why: 'overrun' | Error): void => {
        resolve();
        if (!this.#stopped) events.ended(why);
        this.#stopped = true;
      };
      this.#child.once('error', end);
      // After all that it said was read.
      this.#child.once('close', (code, signal) => {
        if (signal === 'SIGABRT') end('overrun');
        else end(new Error(this.#failure || `its process ended (${signal ?? `exit code ${code}`})`));
      });
    });
  }

  /** Sends a request to the kernel. */
  send(request: Buffer): void {
    this.#child.stdin!.write(request);
  }

  /** Tells nothing any more. Resolves when the process has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#child.kill('SIGKILL'); // it holds nothing that could be lost
    await this.#exited;
  }
}
