/** What etcd has to do, by its own account: its /metrics, read a few times a second. */
import { setTimeout as delay } from 'node:timers/promises';
import { rssMiBOf, usageOf } from '../../src/storm/subject/usage.js';

export interface Sample {
  readonly atMs: number;
  /** By method: calls begun so far; a stream is one. */
  readonly started: ReadonlyMap<string, number>;
  /** By code: calls that ended with another one than OK. */
  readonly failed: ReadonlyMap<string, number>;
  readonly watchers: number;
  readonly fds: number;
  readonly cpuMs: number;
  readonly rssMiB: number;
}

export interface Requests {
  readonly total: number;
  readonly perSecondMean: number;
  /** In the busiest window of about a second, and between the two samples with the most. */
  readonly perSecondPeak: number;
  readonly momentPeak: number;
  /** Of etcd, in cores. */
  readonly cpuCores: number;
  readonly byMethod: Readonly<Record<string, number>>;
  readonly failed: Readonly<Record<string, number>>;
}

const everyMs = 200;

export function parseMetrics(text: string): Pick<Sample, 'started' | 'failed' | 'watchers' | 'fds'> {
  const started = new Map<string, number>();
  const failed = new Map<string, number>();
  let watchers = 0;
  let fds = 0;
  for (const line of text.split('\n')) {
    const add = (to: Map<string, number>, name: string) =>
      to.set(name, (to.get(name) ?? 0) + Number(line.slice(line.lastIndexOf(' '))));
    const label = (name: string) => new RegExp(`${name}="([^"]*)"`).exec(line)?.[1] ?? '';
    if (line.startsWith('grpc_server_started_total{')) add(started, label('grpc_method'));
    else if (line.startsWith('grpc_server_handled_total{') && !line.includes('grpc_code="OK"'))
      add(failed, label('grpc_code'));
    else if (line.startsWith('etcd_debugging_mvcc_watcher_total ')) watchers = Number(line.split(' ')[1]);
    else if (line.startsWith('process_open_fds ')) fds = Number(line.split(' ')[1]);
  }
  for (const counts of [started, failed]) for (const [name, n] of counts) if (n === 0) counts.delete(name);
  return { started, failed, watchers, fds };
}

function grown(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): Record<string, number> {
  const growth: Record<string, number> = {};
  for (const [name, n] of after) {
    const by = n - (before.get(name) ?? 0);
    if (by > 0) growth[name] = by;
  }
  return growth;
}

const sumOf = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, n) => sum + n, 0);

/** What the samples from the first to the last say. Pure. */
export function requestsOf(samples: readonly Sample[]): Requests {
  const byMethod: Record<string, number> = {};
  const failed: Record<string, number> = {};
  let cpuMs = 0;
  const steps = samples.slice(1).map((sample, i) => {
    const before = samples[i]!;
    const calls = grown(before.started, sample.started);
    for (const [name, n] of Object.entries(calls)) byMethod[name] = (byMethod[name] ?? 0) + n;
    for (const [code, n] of Object.entries(grown(before.failed, sample.failed)))
      failed[code] = (failed[code] ?? 0) + n;
    cpuMs += Math.max(0, sample.cpuMs - before.cpuMs);
    return { fromMs: before.atMs, toMs: sample.atMs, calls: sumOf(calls) };
  });
  let perSecondPeak = 0;
  let momentPeak = 0;
  for (let last = 0; last < steps.length; last++) {
    const { fromMs, toMs, calls } = steps[last]!;
    // The first sample of an etcd that is back may come right after its zeros.
    momentPeak = Math.max(momentPeak, (calls / Math.max(everyMs, toMs - fromMs)) * 1000);
    let first = last;
    let window = calls;
    while (first > 0 && toMs - steps[first]!.fromMs < 1000 - everyMs / 2) window += steps[--first]!.calls;
    // Less than a second is no reason to reckon up.
    perSecondPeak = Math.max(perSecondPeak, window / Math.max(1, (toMs - steps[first]!.fromMs) / 1000));
  }
  const seconds = samples.length < 2 ? 0 : (samples.at(-1)!.atMs - samples[0]!.atMs) / 1000;
  const total = sumOf(byMethod);
  return {
    total,
    perSecondMean: seconds === 0 ? 0 : total / seconds,
    perSecondPeak,
    momentPeak,
    cpuCores: seconds === 0 ? 0 : cpuMs / 1000 / seconds,
    byMethod,
    failed,
  };
}

export class Meter {
  #samples: Sample[] = [];
  readonly #endpoint: string;
  #pid: number;
  #ended = false;
  readonly #running: Promise<void>;

  constructor(endpoint: string, pid: number) {
    this.#endpoint = endpoint;
    this.#pid = pid;
    this.#running = this.#run();
  }

  /** etcd is another process now, and counts from zero. */
  restarted(pid: number): void {
    this.#pid = pid;
    const nothing = { started: new Map(), failed: new Map(), watchers: 0, fds: 0, cpuMs: 0, rssMiB: 0 };
    this.#samples.push({ atMs: performance.now(), ...nothing });
  }

  /** Those since the last time, and the last one before them. */
  async take(): Promise<Sample[]> {
    await this.#sample();
    const samples = this.#samples;
    this.#samples = samples.slice(-1);
    return samples;
  }

  get last(): Sample | undefined {
    return this.#samples.at(-1);
  }

  async end(): Promise<void> {
    this.#ended = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#ended) {
      await this.#sample();
      await delay(everyMs);
    }
  }

  async #sample(): Promise<void> {
    try {
      const response = await fetch(`${this.#endpoint}/metrics`, { signal: AbortSignal.timeout(5000) });
      const text = await response.text();
      const { cpuMicros } = usageOf(this.#pid)!; // it has just answered
      this.#samples.push({
        atMs: performance.now(),
        ...parseMetrics(text),
        cpuMs: cpuMicros / 1000,
        rssMiB: rssMiBOf(this.#pid),
      });
    } catch {
      // It is down: that is one of the phases.
    }
  }
}
