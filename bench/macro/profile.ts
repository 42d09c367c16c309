/** Who needs the machine during a storm, and how well flapd keeps etcd at work: why a rate is what it is. */
import type { EmbeddedEtcd } from '../../src/etcd/embedded.js';
import { defaultWorkers } from '../../src/etcd/pool.js';
import { usageOf } from '../../src/storm/subject/usage.js';
import type { Flapd } from './flapd.js';

/** CPU in microseconds of each transition, by who needs it. */
export interface Profile {
  readonly mainThread: number;
  readonly workerThreads: number;
  /** V8's, nearly all of it; libuv's wait for the journal's disk. */
  readonly otherThreads: number;
  readonly etcd: number;
  readonly feeder: number;
  /** Transactions at etcd at a time, on average. The lanes that are missing wait for flapd. */
  readonly inFlight: number;
}

interface Reading {
  readonly process: number;
  readonly mainThread: number;
  readonly threads: ReadonlyMap<number, number>;
  readonly etcd: number;
  readonly feeder: number;
  readonly txnSeconds: number;
}

export class Profiler {
  readonly #flapd: Flapd;
  readonly #etcd: EmbeddedEtcd;
  readonly #before: Reading;

  private constructor(flapd: Flapd, etcd: EmbeddedEtcd, before: Reading) {
    this.#flapd = flapd;
    this.#etcd = etcd;
    this.#before = before;
  }

  static async start(flapd: Flapd, etcd: EmbeddedEtcd): Promise<Profiler> {
    return new Profiler(flapd, etcd, await read(flapd, etcd));
  }

  /** Of so many transitions, in so many seconds, since the start. */
  async end(transitions: number, seconds: number): Promise<Profile> {
    const before = this.#before;
    const after = await read(this.#flapd, this.#etcd);
    const mainThread = after.mainThread - before.mainThread;
    const byThread = [...after.threads].map(([thread, micros]) => micros - (before.threads.get(thread) ?? 0));
    // The main thread is one of them, and the workers are the next ones in a storm.
    const busiest = byThread.sort((x, y) => y - x).slice(0, 1 + defaultWorkers());
    const workerThreads = busiest.reduce((sum, micros) => sum + micros, 0) - mainThread;
    const each = (micros: number): number => micros / transitions;
    return {
      mainThread: each(mainThread),
      workerThreads: each(workerThreads),
      otherThreads: each(after.process - before.process - mainThread - workerThreads),
      etcd: each(after.etcd - before.etcd),
      feeder: each(after.feeder - before.feeder),
      inFlight: (after.txnSeconds - before.txnSeconds) / seconds,
    };
  }
}

async function read(flapd: Flapd, etcd: EmbeddedEtcd): Promise<Reading> {
  const metrics = await flapd.metrics();
  const own = process.cpuUsage();
  return {
    process: flapd.cpuMicros,
    mainThread: flapd.mainThreadCpuMicros,
    threads: flapd.threadsCpuMicros,
    etcd: usageOf(etcd.pid)!.cpuMicros,
    feeder: own.user + own.system,
    txnSeconds: metrics.get('flapd_txn_duration_seconds_sum') ?? 0,
  };
}
