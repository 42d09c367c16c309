/** flapd in the bench as a dataplane has it: fed through its socket, and judged by etcd afterwards. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { statusKey, workloadPrefix } from '../../src/endpoints/key.js';
import { Status } from '../../src/endpoints/status.js';
import { openEtcd } from '../../src/etcd/client.js';
import type { EmbeddedEtcd } from '../../src/etcd/embedded.js';
import { prefixEnd } from '../../src/etcd/prefix.js';
import { FeedClient } from '../../src/sources/felix/client.js';
import { frame } from '../../src/sources/felix/frames.js';
import { encodeSequenceNumber, encodeStatus } from '../../src/sources/felix/messages.js';
import { subjectSettings } from '../../src/storm/subject/settings.js';
import { benchEndpoint } from './endpoint.js';
import { Flapd } from './flapd.js';
import { PlainClient } from './http2-client.js';
import { type Profile, Profiler } from './profile.js';

export interface SubjectOptions {
  readonly etcd: EmbeddedEtcd;
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
  readonly profile: Profile;
}

/** Until a watch saw it: from its frame's writing, and from flapd's acknowledging it. */
export interface Latencies {
  readonly fromTold: readonly number[];
  readonly fromAccepted: readonly number[];
}

/** What etcd's revision was, and when. */
interface Look {
  readonly revision: number;
  readonly atMs: number;
}

/** Of a storm's transactions, each of which is a revision of etcd's. */
interface Course {
  readonly beganAtMs: number;
  readonly revisionBefore: number;
  readonly near: number;
}

interface Told {
  readonly atMs: number;
  acceptedAtMs: number;
  seenAtMs: number;
}

/** Nothing has been written for so long: all is. Before a storm's end is near, etcd only stands still: while it grows its file. */
const settledMs = 500;
const standstillMs = 5000;
/** Frames on their way that are not accepted yet: so many at most, and more only when there are no more than so many. */
const unacknowledged = { most: 20_000, again: 10_000 };
const askEvery = 500;
/** Whether all is written: each look costs etcd and the feeder a millisecond of a core, so only near the end is it looked for so often. */
const lookEveryMs = 20;
const lookSeldomMs = 300;
/**
 * A storm's rate is that of this part of its transactions. Then the first lane, having less than the others, has nothing left:
 * what is in flight at etcd gets less and less, where a storm that goes on, as the ceiling does, would keep it at work.
 */
const counted = 0.95;

export class Subject {
  readonly flapd: Flapd;
  readonly #options: SubjectOptions;
  readonly #folder: string;
  /** What is told, again and again: all endpoints up, then all down. By its place: what makes a frame of it. */
  readonly #encoded: readonly Uint8Array[];
  /** The same as frames that ask for no acknowledgement, one after another, and where each begins. */
  readonly #frames: Buffer;
  readonly #frameAt: readonly number[];
  readonly #etcd: PlainClient;
  #feed: FeedClient | null = null;
  /** Those whose latency is measured, by sequence number. */
  readonly #told = new Map<number, Told>();
  /** Of the last storm. */
  #transactionsPerTransition = 0;
  #sent = 0;
  #acknowledged = 0;
  /** Called once no more than so many frames are unacknowledged. */
  #waiting: { readonly most: number; readonly resolve: () => void } | null = null;

  private constructor(options: SubjectOptions, folder: string, flapd: Flapd) {
    this.#options = options;
    this.#folder = folder;
    this.flapd = flapd;
    this.#etcd = new PlainClient(options.etcd.endpoint);
    const endpoints = Array.from({ length: options.endpoints }, (_, n) => benchEndpoint(n));
    this.#encoded = [Status.up, Status.down].flatMap((status) =>
      endpoints.map((endpoint) => encodeStatus(endpoint, status)),
    );
    const frames = this.#encoded.map((encoded) => frame(encoded));
    this.#frames = Buffer.concat(frames);
    let at = 0;
    this.#frameAt = [0, ...frames.map(({ length }) => (at += length))];
  }

  static async start(options: SubjectOptions): Promise<Subject> {
    const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'flapd-bench-'));
    const socketPath = join(folder, 'feed.sock');
    const settings = new Map<string, string>([
      ...subjectSettings({
        via: 'feed',
        host: options.host,
        connection: { endpoints: [options.etcd.endpoint] },
        socketPath,
        journalDir: join(folder, 'journal'),
        endpoints: options.endpoints,
        production: false,
        overrides: new Map(),
      }),
      ...Object.entries(options.settings ?? {}),
    ]);
    const subject = new Subject(options, folder, await Flapd.start(settings));
    subject.#feed = await FeedClient.connect(socketPath, {
      onAck: (sequenceNumber) => subject.#heard(sequenceNumber),
    });
    return subject;
  }

  /** Flaps all endpoints in turn, so many transitions, as fast as flapd takes them; resolves when all are in etcd. */
  async storm(transitions: number): Promise<Fed> {
    const profiler = await Profiler.start(this.flapd, this.#options.etcd);
    const revisionBefore = await this.#revision();
    const cpuBefore = this.flapd.cpuMicros;
    const beganAtMs = performance.now();
    await this.feed(transitions);
    const expected = transitions * this.#transactionsPerTransition;
    const near = revisionBefore + counted * expected;
    const looks = await this.#lookUntilWritten({ near, revisionBefore, beganAtMs });
    const transactions = looks.at(-1)!.revision - revisionBefore;
    this.#transactionsPerTransition = transactions / transitions;
    const lookAfter = (share: number): Look =>
      looks.find(({ revision }) => revision - revisionBefore >= share * transactions)!;
    const { revision, atMs } = lookAfter(counted);
    const part = (revision - revisionBefore) / transactions;
    const seconds = (lookAfter(1).atMs - beganAtMs) / 1000;
    return {
      transitionsPerSecond: (transitions * part * 1000) / (atMs - beganAtMs),
      cpuMicrosPerTransition: (this.flapd.cpuMicros - cpuBefore) / transitions,
      rssMiB: this.flapd.rssMiB,
      profile: await profiler.end(transitions, seconds),
    };
  }

  /**
   * Flaps all endpoints in turn, as fast as flapd takes them; resolves when all is accepted. Of ready-made frames, as the
   * ceiling's transactions are, since both cores are wanted elsewhere; every so often one asks how far flapd has come.
   */
  async feed(transitions: number): Promise<void> {
    for (const end = this.#sent + transitions; this.#sent < end; ) {
      const from = this.#sent % this.#encoded.length;
      const to = Math.min(from + askEvery, from + end - this.#sent, this.#encoded.length);
      this.#sent += to - from;
      this.#feed!.send(this.#frames.subarray(this.#frameAt[from], this.#frameAt[to]));
      this.#feed!.send(frame(encodeSequenceNumber(this.#sent)));
      if (this.#sent - this.#acknowledged > unacknowledged.most) await this.#atMost(unacknowledged.again);
      else await new Promise((resolve) => setImmediate(resolve));
    }
    await this.#atMost(0);
  }

  /** Flaps all endpoints in turn, so many a second whatever comes of it, until it is told to stop. */
  async feedSteadily(perSecond: number, signal: AbortSignal): Promise<void> {
    const beganAtMs = performance.now();
    for (let k = 0; !signal.aborted; await delay(1))
      for (; k < ((performance.now() - beganAtMs) * perSecond) / 1000; k++) this.#flap();
    await this.#atMost(0);
  }

  /** Says of so many endpoints, once, what they were last; as a dataplane does whose flapd was restarted. */
  async tell(endpoints: number): Promise<void> {
    for (let n = 0; n < endpoints; n++) {
      this.#sent++;
      this.#feed!.send(frame(encodeStatus(benchEndpoint(n), Status.up), encodeSequenceNumber(this.#sent)));
    }
    await this.#atMost(0);
  }

  /** So many transitions, so many a second, whatever becomes of those before. Sorted, in milliseconds. */
  async latencies(transitions: number, perSecond: number): Promise<Latencies> {
    const { endpoints } = this.#options;
    const client = openEtcd({ endpoints: [this.#options.etcd.endpoint] });
    const watcher = await client.watch().prefix(workloadPrefix(this.#where)).create();
    const byVersion = new Map<string, Told>();
    let seen = 0;
    watcher.on('put', ({ key, version }) => {
      byVersion.get(`${key} ${version}`)!.seenAtMs = performance.now();
      seen++;
    });
    const beganAtMs = performance.now();
    for (let k = 0; k < transitions; k++) {
      const dueAtMs = beganAtMs + (k * 1000) / perSecond;
      if (dueAtMs > performance.now()) await delay(dueAtMs - performance.now());
      const endpoint = this.#sent % endpoints;
      const key = statusKey(benchEndpoint(endpoint), this.#where);
      const told: Told = { atMs: performance.now(), acceptedAtMs: 0, seenAtMs: 0 };
      byVersion.set(`${key} ${this.#putsOf(endpoint) + 1}`, told);
      this.#told.set(this.#sent + 1, told);
      this.#flap();
      this.#feed!.flush();
    }
    while (seen < transitions || this.#acknowledged < this.#sent) await delay(5);
    await watcher.cancel();
    client.close();
    const all = [...byVersion.values()];
    this.#told.clear();
    const sorted = (since: (told: Told) => number): number[] =>
      all.map((told) => told.seenAtMs - since(told)).sort((x, y) => x - y);
    return {
      fromTold: sorted(({ atMs }) => atMs),
      fromAccepted: sorted(({ acceptedAtMs }) => acceptedAtMs),
    };
  }

  /** Throws unless each endpoint's key was put just as often as it was told, and has the last value. */
  async verify(): Promise<void> {
    const client = openEtcd({ endpoints: [this.#options.etcd.endpoint] });
    const prefix = Buffer.from(workloadPrefix(this.#where));
    const { kvs } = await client.kv.range({ key: prefix, range_end: prefixEnd(prefix) });
    client.close();
    const found = new Map(kvs.map(({ key, value, version }) => [key.toString(), `${version} ${value}`]));
    for (let n = 0; n < this.#options.endpoints; n++) {
      const puts = this.#putsOf(n);
      if (puts === 0) continue;
      const expected = `${puts} {"status":"${puts % 2 === 1 ? 'up' : 'down'}"}`;
      const actual = found.get(statusKey(benchEndpoint(n), this.#where));
      if (actual !== expected) throw new Error(`endpoint ${n}: etcd has ${actual}, ${expected} was told`);
    }
  }

  async stop({ keepFolder = false } = {}): Promise<void> {
    this.#etcd.close();
    await this.#feed?.end();
    await this.flapd.stop();
    if (!keepFolder) rmSync(this.#folder, { recursive: true, force: true });
  }

  get #where(): { host: string; region: null } {
    return { host: this.#options.host, region: null };
  }

  #heard(sequenceNumber: number): void {
    if (this.#told.size > 0) {
      const nowMs = performance.now();
      for (let n = this.#acknowledged + 1; n <= sequenceNumber; n++) {
        const told = this.#told.get(n);
        if (told !== undefined) told.acceptedAtMs = nowMs;
      }
    }
    this.#acknowledged = Math.max(this.#acknowledged, sequenceNumber);
    if (this.#waiting === null || this.#sent - this.#acknowledged > this.#waiting.most) return;
    this.#waiting.resolve();
    this.#waiting = null;
  }

  /** Resolves when no more frames than so many are unacknowledged. To look again and again would need the processor. */
  #atMost(most: number): Promise<void> {
    if (this.#sent - this.#acknowledged <= most) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting = { most, resolve };
    });
  }

  /** The next endpoint's next status, with a number of its own. */
  #flap(): void {
    const encoded = this.#encoded[this.#sent++ % this.#encoded.length]!;
    this.#feed!.send(frame(encoded, encodeSequenceNumber(this.#sent)));
  }

  /** How often the endpoint's key was put, once all that was told is written. */
  #putsOf(endpoint: number): number {
    const { endpoints } = this.#options;
    return Math.floor((this.#sent - endpoint - 1) / endpoints) + 1;
  }

  /**
   * Resolves when everything that was told is in etcd: when its revision moves no more. Asking flapd would cost flapd;
   * whether it really is everything, verify() says.
   */
  async written(): Promise<void> {
    await this.#lookUntilWritten(null);
  }

  /** With `course`, etcd's revision is looked at seldom until it comes near the end. */
  async #lookUntilWritten(course: Course | null): Promise<readonly Look[]> {
    const looks: Look[] = [];
    let moved: Look = { revision: 0, atMs: performance.now() };
    const over = (): boolean =>
      performance.now() - moved.atMs >= (moved.revision < (course?.near ?? 0) ? standstillMs : settledMs);
    while (!over()) {
      const revision = await this.#revision();
      const look = { revision, atMs: performance.now() };
      looks.push(look);
      if (revision !== moved.revision) moved = look;
      const leftMs = course === null ? 0 : msUntil(course, revision);
      await delay(Math.max(lookEveryMs, Math.min(leftMs, lookSeldomMs)));
    }
    return looks;
  }

  #revision(): Promise<number> {
    return this.#etcd.revision();
  }
}

/** At the pace so far. */
function msUntil({ beganAtMs, revisionBefore, near }: Course, revision: number): number {
  const perMs = (revision - revisionBefore) / (performance.now() - beganAtMs);
  return perMs === 0 ? 0 : (near - revision) / perMs;
}
