/** Felix, as far as its dataplane driver sees it: the process that started it and holds the other ends of its pipes. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';

const main = fileURLToPath(new URL('../../../src/cli/main.js', import.meta.url));
const fake = fileURLToPath(new URL('./fake-driver.js', import.meta.url));

/** The real driver: fake-driver.ts in one of its modes. */
export function fakeDriver(...mode: string[]): string[] {
  return [process.execPath, fake, ...mode];
}

export interface FelixOptions {
  readonly driver: readonly string[];
  /** Where flapd listens; nowhere unless said otherwise. */
  readonly flapdSocket?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A FIFO's two ends, as os.Pipe() would make them. */
function fifo(folder: string, name: string): { reads: number; writes: number } {
  const path = join(folder, name);
  execFileSync('mkfifo', [path]);
  const reads = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writes = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  return { reads, writes };
}

export class Felix {
  /** fd 3's other end. */
  readonly toDriver: Socket;
  /** fd 4's other end. */
  readonly fromDriver: Socket;
  /** The dataplane's hands and ears, where the driver is a relay. */
  readonly dataplaneSays: Writable;
  readonly dataplaneHears: Readable;
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Codes of the errors that its pipes have had. */
  readonly errors: string[] = [];
  stderr = '';
  readonly #folder = mkdtempSync(join(tmpdir(), 'flapd-felix-'));

  constructor({ driver, flapdSocket, env = {} }: FelixOptions) {
    const down = fifo(this.#folder, 'to-dataplane');
    const back = fifo(this.#folder, 'from-dataplane');
    const socket = flapdSocket ?? join(this.#folder, 'nobody.sock');
    this.child = spawn(process.execPath, [main, 'felix-driver', '--flapd-socket', socket, '--', ...driver], {
      stdio: ['pipe', 'pipe', 'pipe', down.reads, back.writes],
      env: { PATH: process.env.PATH, ...env },
    });
    closeSync(down.reads);
    closeSync(back.writes);
    this.toDriver = new Socket({ fd: down.writes, readable: false, writable: true });
    this.fromDriver = new Socket({ fd: back.reads, readable: true, writable: false });
    this.dataplaneSays = this.child.stdin!;
    this.dataplaneHears = this.child.stdout!;
    for (const stream of [this.toDriver, this.fromDriver, this.dataplaneSays])
      stream.on('error', (error: NodeJS.ErrnoException) => this.errors.push(error.code ?? error.message));
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.ended = new Promise((resolve) => {
      this.child.once('close', (code, signal) => resolve({ code, signal }));
    });
  }

  /** The peak of felix-driver's memory so far. */
  get peakMiB(): number {
    const status = readFileSync(`/proc/${this.child.pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)![1]) / 1024;
  }

  /** Of the real driver. */
  get driverPid(): number | null {
    const pid = /"driverPid":(\d+)/.exec(this.stderr)?.[1];
    return pid === undefined ? null : Number(pid);
  }

  async close(): Promise<void> {
    this.toDriver.destroy();
    this.fromDriver.destroy();
    this.dataplaneSays.destroy();
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL');
    this.dataplaneHears.resume();
    await this.ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** All that a stream says until it ends. */
export async function allOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('latin1');
}
