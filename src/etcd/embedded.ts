/** A real etcd of flapd's own, as a child process: for one machine alone, for trying flapd out, for storms and tests. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface EmbeddedOptions {
  readonly binary: string;
  readonly dataDir: string;
  /** 0: any free one. */
  readonly clientPort: number;
  readonly extraArgs?: readonly string[];
  /** How long it may take until it serves: 30 s unless said otherwise. */
  readonly startWithinMs?: number;
  /** etcd ended without being told to. */
  readonly onExit?: (why: string) => void;
}

export class EmbeddedEtcdError extends Error {
  readonly code = 'ETCD_EMBEDDED';
}

const startWithinMs = 30_000;
/** With a watch open, etcd takes ten seconds to say good-bye; what it has acknowledged is on disk anyway. */
const stopDeadlineMs = 2_000;

export class EmbeddedEtcd {
  readonly endpoint: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #stopping = false;

  private constructor(endpoint: string, child: ChildProcess, ended: Promise<void>) {
    this.endpoint = endpoint;
    this.#child = child;
    this.#ended = ended;
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** Starts etcd and waits until it serves. Throws an EmbeddedEtcdError with etcd's own last words where it does not. */
  static async start(options: EmbeddedOptions): Promise<EmbeddedEtcd> {
    mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
    if (options.clientPort !== 0) await assertFree(options.clientPort);
    const clientPort = options.clientPort === 0 ? await freePort() : options.clientPort;
    const client = `http://127.0.0.1:${clientPort}`;
    const peer = `http://127.0.0.1:${await freePort()}`;
    const args = [
      '--name=flapd',
      `--data-dir=${options.dataDir}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=flapd=${peer}`,
      ...(options.extraArgs ?? []),
    ];
    const child = spawnEtcd(options.binary, args);
    let lastWords = '';
    child.stderr!.on('data', (data: Buffer) => {
      lastWords = (lastWords + data.toString('utf8')).slice(-4000);
    });
    let ended: string | null = null;
    const whenEnded = new Promise<void>((resolve) => {
      child.once('error', (error) => {
        ended ??= error.message;
        resolve();
      });
      // Not 'exit': its last words may come after that.
      child.once('close', (code, signal) => {
        ended ??= signal === null ? `exit code ${code}` : `signal ${signal}`;
        resolve();
      });
    });
    const etcd = new EmbeddedEtcd(client, child, whenEnded);
    const deadlineMs = performance.now() + (options.startWithinMs ?? startWithinMs);
    while (!(await isHealthy(client))) {
      if (ended !== null || performance.now() > deadlineMs) {
        const endedEarly = ended;
        child.kill('SIGKILL');
        await whenEnded;
        throw new EmbeddedEtcdError(whyNot(options, endedEarly, lastWords));
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    void whenEnded.then(() => {
      if (!etcd.#stopping) options.onExit?.(ended ?? 'unknown');
    });
    return etcd;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#child.kill('SIGCONT');
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), stopDeadlineMs);
    await this.#ended;
    clearTimeout(timer);
  }

  /** Ends it the hard way, as a power cut would. */
  async crash(): Promise<void> {
    this.#stopping = true;
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}

/** What etcd 3.4 and 3.5 say while they wait for the lock of their database. */
const lockTaken = /holds the file lock|flocked by another process/;

function whyNot({ binary, dataDir }: EmbeddedOptions, ended: string | null, lastWords: string): string {
  const what = ended === null ? 'did not begin to serve in time' : `ended: ${ended}`;
  const advice = lockTaken.test(lastWords)
    ? ` Another etcd seems to use ${dataDir}: end it, or choose another directory.`
    : '';
  const words = lastWords.trim().split('\n').slice(-5).join('\n');
  return `etcd (${binary}) ${what}.${advice} Its last words:\n${words}`;
}

const children = new Set<ChildProcess>();
let setpriv: readonly string[] | null = null;

/**
 * Starts an etcd that does not outlive this process, with its stderr as a pipe. It is in a session of its own: a Ctrl-C
 * at the terminal goes to every process of the foreground group, and must not take etcd away while flapd still writes
 * what is pending. And the kernel kills it when this process is gone, be it by SIGKILL (prctl(2), PR_SET_PDEATHSIG, which
 * util-linux' setpriv sets before it becomes etcd): else it would keep the port and the data from the next start.
 */
export function spawnEtcd(binary: string, args: readonly string[]): ChildProcess {
  setpriv ??= dyingWithParent();
  const [command, ...rest] = [...setpriv, binary, ...args];
  const child = spawn(command!, rest, { stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  if (children.size === 0) process.on('exit', killChildren);
  children.add(child);
  const forget = (): void => {
    children.delete(child);
    if (children.size === 0) process.off('exit', killChildren);
  };
  child.once('exit', forget);
  child.once('error', forget);
  return child;
}

/** The prefix of a command that makes it die with us; empty where there is no setpriv that can (busybox has a lesser one). */
function dyingWithParent(): readonly string[] {
  const prefix = ['setpriv', '--pdeathsig', 'KILL', '--'];
  const { status } = spawnSync(prefix[0]!, [...prefix.slice(1), 'true'], { stdio: 'ignore' });
  return status === 0 ? prefix : [];
}

function killChildren(): void {
  for (const child of children) child.kill('SIGKILL');
}

/** FLAPD_ETCD, the PATH, what scripts/etcd has unpacked before, or what it can get now. Throws an EmbeddedEtcdError. */
export function findEtcdBinary(): string {
  const named = process.env.FLAPD_ETCD;
  if (named !== undefined && named !== '') {
    if (isExecutable(named)) return named;
    throw new EmbeddedEtcdError(`FLAPD_ETCD names ${named}, which cannot be run`);
  }
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    if (folder !== '' && isExecutable(join(folder, 'etcd'))) return join(folder, 'etcd');
  }
  // From dist/etcd/ and from build/src/etcd/ alike.
  for (const up of ['../..', '../../..']) {
    const script = fileURLToPath(new URL(`${up}/scripts/etcd`, import.meta.url));
    if (!existsSync(script)) continue;
    const { status, stdout } = spawnSync(script, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    const path = stdout?.trim();
    if (status === 0 && path) return path;
  }
  throw new EmbeddedEtcdError(
    'no etcd found. Install one (on Debian: apt-get install etcd-server), put it on the PATH, or name it with FLAPD_ETCD=/path/to/etcd',
  );
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function isHealthy(endpoint: string): Promise<boolean> {
  try {
    const response = await fetch(`${endpoint}/health`, { signal: AbortSignal.timeout(1000) });
    const body = (await response.json()) as { health?: unknown };
    return body.health === 'true' || body.health === true;
  } catch {
    return false; // not yet
  }
}

async function assertFree(port: number): Promise<void> {
  try {
    await listenOnce(port);
  } catch (cause) {
    throw new EmbeddedEtcdError(
      `port ${port} is taken (by another etcd?). Choose another one with --etcd-embedded-port, or use that etcd: --etcd http://127.0.0.1:${port}`,
      { cause },
    );
  }
}

/** A port of the loopback that is free now. */
export function freePort(): Promise<number> {
  return listenOnce(0);
}

function listenOnce(port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : port));
    });
  });
}
