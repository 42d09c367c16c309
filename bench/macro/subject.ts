/** flapd in the macro bench: the command itself, fed through its socket, and judged by etcd afterwards. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { statusKey, workloadPrefix } from '../../src/endpoints/key.js';
import { Status } from '../../src/endpoints/status.js';
import { openEtcd } from '../../src/etcd/client.js';
import { freePort } from '../../src/etcd/embedded.js';
import { prefixEnd } from '../../src/etcd/prefix.js';
import { FeedClient } from '../../src/sources/felix/client.js';
import { frame } from '../../src/sources/felix/frames.js';
import { encodeSequenceNumber, encodeStatus } from '../../src/sources/felix/messages.js';
import { subjectEnvironment, subjectSettings } from '../../src/storm/subject/settings.js';
import { benchEndpoint } from './endpoint.js';

const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

export interface SubjectOptions {
  readonly etcd: string;
  readonly host: string;
  readonly endpoints: number;
  /** Besides those of a storm: everything that holds writes back is off there. */
  readonly settings?: Readonly<Record<string, string>>;
  /** A journal that outlives it. */
  readonly folder?: string;
}

export interface Fed {
  readonly transitionsPerSecond: number;
  /** Main and worker threads, and V8's helpers, from the first frame to the last commit. */
  readonly cpuMicrosPerTransition: number;
  readonly rssMiB: number;
}

/** Nothing has been written for so long: all is. */
const settledMs = 500;
/** Frames on their way that are not accepted yet. */
const unacknowledgedMax = 20_000;

export class Subject {
  readonly httpPort: number;
  readonly #options: SubjectOptions;
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #exited: Promise<void>;
  /** By endpoint: how often its key was put, so far. */
  readonly #puts: Uint32Array;
  #feed: FeedClient | null = null;
  #sent = 0;
  #acknowledged = 0;
  #log = '';

  private constructor(options: SubjectOptions, folder: string, httpPort: number, startedAtMs: number) {
    this.#options = options;
    this.#folder = folder;
    this.httpPort = httpPort;
    this.startedAtMs = startedAtMs;
    this.#puts = new Uint32Array(options.endpoints);
    const settings = new Map<string, string>([
      ...subjectSettings({
        via: 'feed',
        host: options.host,
        connection: { endpoints: [options.etcd] },
        socketPath: join(folder, 'feed.sock'),
        journalDir: join(folder, 'journal'),
        endpoints: options.endpoints,
        production: false,
        overrides: new Map(),
      }),
      ['http', `127.0.0.1:${httpPort}`],
      ...Object.entries(options.settings ?? {}),
    ]);
    const args = [...settings].flatMap(([name, value]) => ['--set', `${name}=${value}`]);
    this.#child = spawn(process.execPath, [main, 'run', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: subjectEnvironment(process.env),
    });
    this.#child.stderr!.on('data', (data: Buffer) => {
      this.#log = (this.#log + data.toString()).slice(-4000);
    });
    this.#exited = new Promise((resolve) => this.#child.once('exit', () => resolve()));
  }

  /** Monotonic. */
  readonly startedAtMs: number;

  static async start(options: SubjectOptions): Promise<Subject> {
    const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'flapd-bench-'));
    const subject = new Subject(options, folder, await freePort(), performance.now());
    await subject.#ready();
    subject.#feed = await FeedClient.connect(join(folder, 'feed.sock'), {
      onAck: (sequenceNumber) => {
        subject.#acknowledged = sequenceNumber;
      },
    });
    return subject;
  }

  /** From the process's start to /readyz saying so. */
  readyAfterMs = 0;

  async #ready(): Promise<void> {
    for (;;) {
      if (this.#child.exitCode !== null) throw new Error(`flapd has ended: ${this.#log}`);
      const response = await fetch(`http://127.0.0.1:${this.httpPort}/readyz`).catch(() => null);
      if (response?.ok) break;
      await delay(5);
    }
    this.readyAfterMs = performance.now() - this.startedAtMs;
  }

  /** Flaps all endpoints in turn, so many transitions, as fast as flapd takes them; resolves when all are in etcd. */
  async storm(transitions: number): Promise<Fed> {
    const { endpoints } = this.#options;
    const frames = Array.from({ length: endpoints }, (_, n) =>
      [Status.up, Status.down].map((status) => encodeStatus(benchEndpoint(n), status)),
    );
    const cpuBefore = this.cpuMicros;
    const beganAtMs = performance.now();
    for (let k = 0; k < transitions; k++) {
      const endpoint = this.#sent % endpoints;
      this.#feed!.send(this.#frame(frames[endpoint]![this.#puts[endpoint]! % 2]!, endpoint));
      if (this.#sent % 500 === 0) {
        await new Promise((resolve) => setImmediate(resolve));
        while (this.#sent - this.#acknowledged > unacknowledgedMax) await delay(1);
      }
    }
    const seconds = ((await this.#written()) - beganAtMs) / 1000;
    const cpu = this.cpuMicros - cpuBefore;
    return {
      transitionsPerSecond: transitions / seconds,
      cpuMicrosPerTransition: cpu / transitions,
      rssMiB: this.rssMiB,
    };
  }

  /** Says of so many endpoints, once, what they were last; as a dataplane does whose flapd was restarted. */
  async tell(endpoints: number): Promise<void> {
    for (let n = 0; n < endpoints; n++) {
      this.#sent++;
      this.#feed!.send(frame(encodeStatus(benchEndpoint(n), Status.up), encodeSequenceNumber(this.#sent)));
    }
    while (this.#acknowledged < this.#sent) await delay(5);
  }

  /** One transition each so many milliseconds; returns flapd's own account: accepted to committed, in milliseconds. */
  async trickle(transitions: number, everyMs: number): Promise<number[]> {
    const latenciesMs: number[] = [];
    const client = openEtcd({ endpoints: [this.#options.etcd] });
    const watcher = await client
      .watch()
      .key(statusKey(benchEndpoint(0), this.#where))
      .create();
    let toldAtMs = 0;
    watcher.on('put', () => latenciesMs.push(performance.now() - toldAtMs));
    for (let k = 0; k < transitions; k++) {
      toldAtMs = performance.now();
      this.#feed!.send(
        this.#frame(encodeStatus(benchEndpoint(0), this.#puts[0]! % 2 === 0 ? Status.up : Status.down), 0),
      );
      while (latenciesMs.length <= k) await delay(1);
      await delay(Math.max(0, everyMs - (performance.now() - toldAtMs)));
    }
    await watcher.cancel();
    client.close();
    return latenciesMs;
  }

  /** Throws unless each endpoint's key was put just as often as it was told, and has the last value. */
  async verify(): Promise<void> {
    const client = openEtcd({ endpoints: [this.#options.etcd] });
    const prefix = Buffer.from(workloadPrefix(this.#where));
    const { kvs } = await client.kv.range({ key: prefix, range_end: prefixEnd(prefix) });
    client.close();
    const found = new Map(kvs.map(({ key, value, version }) => [key.toString(), `${version} ${value}`]));
    for (const [n, puts] of this.#puts.entries()) {
      if (puts === 0) continue;
      const expected = `${puts} {"status":"${puts % 2 === 1 ? 'up' : 'down'}"}`;
      const actual = found.get(statusKey(benchEndpoint(n), this.#where));
      if (actual !== expected) throw new Error(`endpoint ${n}: etcd has ${actual}, ${expected} was told`);
    }
  }

  get cpuMicros(): number {
    const fields = readFileSync(`/proc/${this.#child.pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10_000; // a tick is 10 ms
  }

  get rssMiB(): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(status)![1]) / 1024;
  }

  get threads(): number {
    return readdirSync(`/proc/${this.#child.pid}/task`).length;
  }

  async stop({ keepFolder = false } = {}): Promise<void> {
    await this.#feed?.end();
    this.#child.kill('SIGTERM');
    await this.#exited;
    if (!keepFolder) rmSync(this.#folder, { recursive: true, force: true });
  }

  get #where(): { host: string; region: null } {
    return { host: this.#options.host, region: null };
  }

  #frame(encoded: Uint8Array, endpoint: number): Buffer {
    this.#puts[endpoint]!++;
    this.#sent++;
    return frame(encoded, encodeSequenceNumber(this.#sent));
  }

  /**
   * When everything that was told is in etcd: when its revision moved last. Asking flapd would cost flapd; whether it
   * really is everything, verify() says.
   */
  async #written(): Promise<number> {
    while (this.#acknowledged < this.#sent) await delay(5);
    const client = openEtcd({ endpoints: [this.#options.etcd] });
    let [revision, movedAtMs] = ['', performance.now()];
    while (performance.now() - movedAtMs < settledMs) {
      const { header } = await client.kv.range({ key: Buffer.from('x') });
      if (header.revision !== revision) [revision, movedAtMs] = [header.revision, performance.now()];
      await delay(10);
    }
    client.close();
    return movedAtMs;
  }
}
