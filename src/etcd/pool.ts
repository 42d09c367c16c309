/**
 * The worker threads. run() never rejects: a worker that throws, exits, hangs or runs out of memory with a transaction
 * in its hands makes that transaction unclear, which its lane sends again, and is replaced.
 */
import { availableParallelism } from 'node:os';
import { messageOf } from './classify.js';
import type { EtcdConnection } from './connection.js';
import { faultsAllowed } from './faults.js';
import { PoolWorker } from './pool-worker.js';
import type { Turn, TxnResult, WorkerFault } from './task.js';

export interface WorkerPoolOptions {
  readonly connection: EtcdConnection;
  /** Transactions at a time that a worker may have under way. */
  readonly lanes: number;
  readonly workers?: number;
  /** The host's token bucket; 0 a second: no limit. */
  readonly rate: Rate;
  readonly hangMs?: number;
  readonly memoryMiB?: number;
  /** Workers fail at their start again and again: nothing can be written any more. Called once. */
  readonly onFatal: (error: WorkerStartError) => void;
  /** For the log: a worker was replaced. */
  readonly onReplaced?: (why: string) => void;
  /** Another worker than this package's, for tests. */
  readonly workerUrl?: URL;
}

export interface Rate {
  readonly txnsPerSecond: number;
  readonly burst: number;
}

export class WorkerStartError extends Error {
  readonly code = 'WORKER_START';
}

const startFailuresMax = 3;
const hangMsDefault = 10_000;
/** A worker idles at 20 MiB. */
const memoryMiBDefault = 128;

/** One on two cores, up to four: the work is waiting for etcd more than computing. */
export function defaultWorkers(cores: number = availableParallelism()): number {
  return Math.max(1, Math.min(4, cores - 1));
}

export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  readonly #size: number;
  readonly #hangMs: number;
  #workers: PoolWorker[] = [];
  #connection: EtcdConnection;
  #perSecondMax = 0;
  #next = 0;
  /** By lane: who has its newest transaction. */
  readonly #workerOf: PoolWorker[] = [];
  #watchdog: NodeJS.Timeout | null = null;
  /** In a row. */
  #startFailures = 0;
  #replaced = 0;
  #state: 'new' | 'running' | 'fatal' | 'closed' = 'new';

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.#size = options.workers ?? defaultWorkers();
    this.#hangMs = options.hangMs ?? hangMsDefault;
    this.#connection = options.connection;
    this.setRate(options.rate);
  }

  get size(): number {
    return this.#size;
  }

  /** How many workers had to be replaced so far. */
  get replaced(): number {
    return this.#replaced;
  }

  /**
   * Starts the workers and waits until each has answered. Throws a WorkerStartError after three failed starts. Closed
   * meanwhile, it leaves none behind.
   */
  async start(): Promise<void> {
    this.#watchdog = setInterval(() => this.#check(), Math.max(10, Math.min(1000, this.#hangMs / 4)));
    this.#watchdog.unref();
    for (;;) {
      try {
        const workers = await this.#startWorkers();
        if (this.#state === 'closed') {
          await Promise.all(workers.map((worker) => worker.retire(0)));
          return;
        }
        this.#workers = workers;
        this.#state = 'running';
        return;
      } catch (error) {
        if (++this.#startFailures >= startFailuresMax) throw this.#startError(error);
      }
    }
  }

  /**
   * Has a worker carry out a lane's transaction. The request is handed over: it is empty afterwards, and has its buffer to
   * itself. Never rejects; where the worker fails, the answer is `unclear` with the reason `worker`.
   */
  async run(turn: Turn, request: Uint8Array<ArrayBuffer>, fault?: WorkerFault): Promise<TxnResult> {
    const startedAtMs = performance.now();
    const worker = this.#workerFor(turn);
    if (worker === null) return { answer: { kind: 'notSent' }, durationMs: 0, waitedMs: 0 };
    const perSecondMax = this.#perSecondMax;
    try {
      if (worker === undefined) throw new Error('it has not been started');
      return await worker.run({ kind: 'txn', turn, request, perSecondMax, ...(fault && { fault }) });
    } catch (error) {
      const message = `the worker with lane ${turn.lane}'s transaction failed: ${messageOf(error)}`;
      const durationMs = performance.now() - startedAtMs;
      return { answer: { kind: 'unclear', reason: 'worker', message }, durationMs, waitedMs: 0 };
    }
  }

  /** A transaction that was to follow another is not to be sent, where it has not been. Its run() tells. */
  withdraw(lane: number, attempt: number): void {
    this.#workerOf[lane]?.withdraw(lane, attempt);
  }

  /** From the next transaction on. */
  setRate({ txnsPerSecond, burst }: Rate): void {
    this.#perSecondMax = txnsPerSecond === 0 ? 0 : Math.ceil((txnsPerSecond + burst) / this.#size);
  }

  /**
   * New workers with new connections, after certificates, passwords or endpoints have changed. The old ones end once
   * they are through with what they have. Rejects, and leaves the old ones at work, where the new ones do not start.
   */
  async rebuild(connection: EtcdConnection = this.#connection): Promise<void> {
    const before = this.#connection;
    this.#connection = connection;
    try {
      const workers = await this.#startWorkers();
      const old = this.#workers;
      this.#workers = workers;
      await Promise.all(old.map((worker) => worker.retire(this.#hangMs)));
    } catch (error) {
      this.#connection = before;
      throw error;
    }
  }

  /** Lets transactions under way end, for so long; what is left then ends as unclear. */
  async close({ deadlineMs }: { deadlineMs: number } = { deadlineMs: 0 }): Promise<void> {
    this.#state = 'closed';
    if (this.#watchdog !== null) clearInterval(this.#watchdog);
    await Promise.all(this.#workers.map((worker) => worker.retire(deadlineMs)));
  }

  /**
   * In turn, not by lane: then no worker gets more than its share of what the host's bucket lets through (gate.ts). What
   * follows another goes where that is (there is no limit then); null: who had that is no longer in service.
   */
  #workerFor({ lane, after }: Turn): PoolWorker | null | undefined {
    if (after !== null) {
      const last = this.#workerOf[lane];
      return last !== undefined && this.#workers.includes(last) ? last : null;
    }
    this.#next = (this.#next + 1) % this.#size;
    const worker = this.#workers[this.#next];
    if (worker !== undefined) this.#workerOf[lane] = worker;
    return worker;
  }

  async #startWorkers(): Promise<PoolWorker[]> {
    const workers = Array.from({ length: this.#size }, () => this.#newWorker());
    try {
      await Promise.all(workers.map((worker) => this.#firstSign(worker)));
      return workers;
    } catch (error) {
      await Promise.all(workers.map((worker) => worker.retire(0)));
      throw error;
    }
  }

  #newWorker(): PoolWorker {
    return new PoolWorker({
      settings: {
        connection: this.#connection,
        concurrency: this.#options.lanes,
        faults: faultsAllowed(process.env),
      },
      url: this.#options.workerUrl ?? new URL('./worker.js', import.meta.url),
      memoryMiB: this.#options.memoryMiB ?? memoryMiBDefault,
      hangMs: this.#hangMs,
      onDied: (worker, why) => this.#replace(worker, why),
    });
  }

  async #firstSign(worker: PoolWorker): Promise<void> {
    // The watchdog does not know a worker that is still starting.
    const timer = setInterval(() => worker.check(performance.now()), this.#hangMs / 4);
    try {
      await worker.ping();
      this.#startFailures = 0;
    } finally {
      clearInterval(timer);
    }
  }

  /** A worker in service has died. Its successor takes its place at once: what comes meanwhile waits in its port. */
  #replace(worker: PoolWorker, why: string): void {
    const index = this.#workers.indexOf(worker);
    if (index < 0 || this.#state !== 'running') return;
    this.#replaced++;
    this.#options.onReplaced?.(why);
    const successor = this.#newWorker();
    this.#workers[index] = successor;
    this.#firstSign(successor).catch((error: unknown) => this.#successorFailed(error));
  }

  #successorFailed(error: unknown): void {
    if (++this.#startFailures < startFailuresMax || this.#state !== 'running') return;
    this.#state = 'fatal';
    this.#options.onFatal(this.#startError(error));
  }

  #startError(cause: unknown): WorkerStartError {
    const message = `${startFailuresMax} worker threads in a row failed at their start; the last one: ${messageOf(cause)}`;
    return new WorkerStartError(message, { cause });
  }

  #check(): void {
    const nowMs = performance.now();
    for (const worker of this.#workers) worker.check(nowMs);
  }
}
