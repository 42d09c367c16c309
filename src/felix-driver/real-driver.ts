/** The real dataplane driver, as a child: started as Felix would have, told what Felix signals, ended like. */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { constants } from 'node:os';

export class RealDriverError extends Error {
  readonly code = 'REAL_DRIVER';
  /** Whether it is not there at all, or is there and cannot be executed. */
  readonly missing: boolean;

  constructor(message: string, missing: boolean, options: ErrorOptions) {
    super(message, options);
    this.missing = missing;
  }
}

export type Ending = { readonly code: number } | { readonly signal: NodeJS.Signals };

/**
 * Passed on. Those that cannot be caught act on this process alone, and the real driver sees its pipes end. (Whoever
 * signals a whole process group reaches the real driver by itself as well: it hears it twice.)
 */
const passedOn: readonly NodeJS.Signals[] = [
  'SIGTERM',
  'SIGINT',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGALRM',
  'SIGCONT',
  'SIGWINCH',
];

export class RealDriver {
  readonly pid: number;
  /** Its fd 3. */
  readonly input: Socket;
  /** Its fd 4. */
  readonly output: Socket;
  readonly ended: Promise<Ending>;

  private constructor(child: ChildProcess) {
    this.pid = child.pid!;
    this.input = child.stdio[3] as Socket;
    this.output = child.stdio[4] as Socket;
    // It is a pipe in one direction only: what is read is its closing, as Felix would notice it when it writes.
    this.input.resume();
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve(signal === null ? { code: code! } : { signal }));
    });
  }

  /** Has stdin, stdout, stderr and the environment of this process. Rejects with a RealDriverError. */
  static async start([program, ...args]: readonly [string, ...string[]]): Promise<RealDriver> {
    let child: ChildProcess | null = null;
    for (const signal of passedOn) process.on(signal, () => child?.kill(signal));
    // Unix sockets, not FIFOs, which node cannot make: read and written alike.
    child = spawn(program, args, { stdio: ['inherit', 'inherit', 'inherit', 'pipe', 'pipe'] });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (cause: NodeJS.ErrnoException) => {
        const missing = cause.code === 'ENOENT' || cause.code === 'ENOTDIR';
        const why = missing ? 'it is not there' : cause.message;
        reject(new RealDriverError(`cannot start the real driver ${program}: ${why}`, missing, { cause }));
      });
    });
    // One that may not be signalled (it has another user now) is no reason to end.
    child.on('error', () => undefined);
    return new RealDriver(child);
  }
}

/** Ends this process in the same way. */
export function endLike(ending: Ending): void {
  if ('code' in ending) process.exit(ending.code);
  const { signal } = ending;
  process.removeAllListeners(signal);
  if (signal !== 'SIGKILL') {
    // libuv gives a signal its default action back when its last listener goes; node itself ignores SIGPIPE.
    const nothing = (): void => undefined;
    process.on(signal, nothing).off(signal, nothing);
  }
  process.kill(process.pid, signal);
  // It has not ended by it, though the real driver did: say it as a shell would.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 100);
}
