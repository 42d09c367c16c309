/** The built command, as a process of its own: what its users run. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../src/etcd/embedded.js';
import type { NetNamespace } from './netns.js';
import { until } from './waiting.js';

export const mainFile = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

export interface FlapdOptions {
  /** Of `flapd run`, besides what follows from the others. */
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** Null: it is given in args. */
  readonly etcd: string | null;
  readonly namespace?: NetNamespace;
  /** A directory that outlives it, for what it keeps; by itself it has a temporary one. */
  readonly folder?: string;
}

export interface LogLine {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export class Flapd {
  /** Of tests that failed: they would keep their test file from ending. */
  static readonly #running = new Set<Flapd>();
  readonly folder: string;
  readonly feedSocket: string;
  readonly httpPort: number;
  readonly log: LogLine[] = [];
  readonly exited: Promise<number | string>;
  exitCode: number | string | null = null;
  readonly #child: ChildProcess;
  readonly #namespace: NetNamespace | null;
  readonly #ownFolder: boolean;

  private constructor(
    child: ChildProcess,
    folder: string,
    ownFolder: boolean,
    httpPort: number,
    namespace: NetNamespace | null,
  ) {
    this.#child = child;
    this.#namespace = namespace;
    this.#ownFolder = ownFolder;
    this.folder = folder;
    this.feedSocket = join(folder, 'feed.sock');
    this.httpPort = httpPort;
    let rest = '';
    child.stderr!.on('data', (data: Buffer) => {
      const lines = (rest + data.toString('utf8')).split('\n');
      rest = lines.pop()!;
      for (const line of lines) this.log.push(parse(line));
    });
    Flapd.#running.add(this);
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        Flapd.#running.delete(this);
        this.exitCode = code ?? signal ?? 'unknown';
        resolve(this.exitCode);
      });
    });
  }

  static async start(options: FlapdOptions): Promise<Flapd> {
    const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'flapd-test-'));
    const httpPort = await freePort();
    const args = [
      mainFile,
      'run',
      ...(options.etcd === null ? [] : ['--etcd', options.etcd]),
      '--host=testhost',
      `--feed-socket=${join(folder, 'feed.sock')}`,
      `--http=127.0.0.1:${httpPort}`,
      `--set=admin.socket=${join(folder, 'admin.sock')}`,
      `--set=driver.socket=${join(folder, 'driver.sock')}`,
      '--set=reporting.processStatus=false', // of interest to tests of just that
      '--set=log.format=json',
      ...(options.args ?? []),
    ];
    const spawnOptions = {
      stdio: ['ignore', 'ignore', 'pipe'] as ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, ...options.env },
    };
    const child =
      options.namespace === undefined
        ? spawn(process.execPath, args, spawnOptions)
        : options.namespace.spawn(process.execPath, args, spawnOptions);
    return new Flapd(child, folder, options.folder === undefined, httpPort, options.namespace ?? null);
  }

  /** Ends those that still run, the hard way. */
  static async endAll(): Promise<void> {
    await Promise.all([...Flapd.#running].map((flapd) => flapd.kill9()));
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get words(): string {
    return this.log.map((line) => JSON.stringify(line)).join('\n');
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Waits for a log line with these words. */
  async says(words: string | RegExp, deadlineMs = 15_000): Promise<LogLine> {
    return until(
      `flapd to say ${words}`,
      () => {
        if (this.exitCode !== null && !this.#said(words))
          throw new Error(`flapd ended with ${this.exitCode}:\n${this.words}`);
        return this.#said(words);
      },
      { deadlineMs },
    );
  }

  async ready(deadlineMs = 15_000): Promise<void> {
    await until(
      'flapd to be ready',
      async () => {
        if (this.exitCode !== null) throw new Error(`flapd ended with ${this.exitCode}:\n${this.words}`);
        return (await this.get('/readyz').catch(() => null))?.ready;
      },
      { deadlineMs, everyMs: 30 },
    );
  }

  /** A page of its HTTP server, parsed where it is JSON. */
  async get(path: '/readyz'): Promise<{ ready: boolean; degraded: boolean; reasons: string[] }>;
  async get(path: '/metrics'): Promise<string>;
  async get(path: string): Promise<unknown> {
    const url = `http://127.0.0.1:${this.httpPort}${path}`;
    if (this.#namespace !== null) {
      const script = `fetch(process.argv[1]).then((r) => r.text()).then((t) => process.stdout.write(t))`;
      const body = this.#namespace.exec(process.execPath, '-e', script, url);
      return path === '/readyz' ? JSON.parse(body) : body;
    }
    const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
    return path === '/readyz' ? response.json() : response.text();
  }

  /** The value of a metric's sample, by its name with its labels as they are written; 0: there is none. */
  async metric(sample: string): Promise<number> {
    const text = await this.get('/metrics');
    const line = text.split('\n').find((candidate) => candidate.startsWith(`${sample} `));
    return line === undefined ? 0 : Number(line.slice(sample.length + 1));
  }

  /** SIGTERM; returns the exit code. */
  async stop(): Promise<number | string> {
    if (this.exitCode === null) this.kill('SIGTERM');
    const code = await this.exited;
    this.#cleanUp();
    return code;
  }

  async kill9(): Promise<void> {
    this.kill('SIGKILL');
    await this.exited;
    this.#cleanUp();
  }

  #said(words: string | RegExp): LogLine | undefined {
    return this.log.find(({ msg }) => (typeof words === 'string' ? msg.includes(words) : words.test(msg)));
  }

  #cleanUp(): void {
    if (this.#ownFolder) rmSync(this.folder, { recursive: true, force: true });
  }
}

// In a test file, that is; node's runner says so.
if (process.env.NODE_TEST_CONTEXT !== undefined) after(() => Flapd.endAll());

function parse(line: string): LogLine {
  try {
    return JSON.parse(line) as LogLine;
  } catch {
    return { level: 0, msg: line };
  }
}
