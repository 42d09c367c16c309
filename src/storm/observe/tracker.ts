/**
 * Follows a storm while it runs: pairs each commit that the watch shows with the telling that caused it, the k-th
 * with the k-th of each endpoint. For latencies, for the faults' moments, and for knowing when all has arrived;
 * the verdict is the verifier's, from etcd's own history.
 */
import type { Status } from '../../endpoints/status.js';
import { Latencies } from './latency.js';

export interface TrackerOptions {
  /** By endpoint: what etcd must get. */
  readonly expected: readonly (readonly Status[])[];
  /** The status that each endpoint has in etcd when the storm begins; null: it has no key. */
  readonly initial: Status | null;
  /** Keep the hot endpoint (number 0) apart. */
  readonly hot: boolean;
  /** A confirming write comes so long after what it confirms, at least; Infinity: there are none. */
  readonly confirmAfterMs: number;
}

/** How late one answer of the watch may come compared with the next, on a busy machine. */
export const watchJitterMs = 100;

export class Tracker {
  readonly all: Latencies;
  readonly hot: Latencies;
  readonly others: Latencies;
  /** Transitions seen committed. */
  committed = 0;
  /** Puts of the status that the key had already. */
  repeated = 0;
  /** Of these, the ones that came sooner than a confirming write may: something was written twice. */
  repeatedTooSoon = 0;
  /** By endpoint, when each transition was told; those that are one telling (`down`, `up` after a removal) share it. */
  readonly toldAtMs: number[][];
  /** By endpoint, when each transition was seen committed. */
  readonly committedAtMs: number[][];
  readonly total: number;
  lastCommitAtMs = 0;
  readonly #options: TrackerOptions;
  readonly #status: (Status | null)[];
  /** By endpoint, when its key was last seen written. */
  readonly #lastAtMs: Float64Array;

  constructor(options: TrackerOptions) {
    const { expected } = options;
    this.#options = options;
    this.total = expected.reduce((sum, statuses) => sum + statuses.length, 0);
    this.all = new Latencies(this.total);
    this.hot = new Latencies(options.hot ? this.total : 0);
    this.others = new Latencies(options.hot ? this.total : 0);
    this.toldAtMs = expected.map(() => []);
    this.committedAtMs = expected.map(() => []);
    this.#status = expected.map(() => options.initial);
    this.#lastAtMs = new Float64Array(expected.length).fill(Number.NEGATIVE_INFINITY);
  }

  get complete(): boolean {
    return this.committed >= this.total;
  }

  /** The endpoint was told something that etcd must get as `transitions` transitions. Monotonic milliseconds. */
  told(endpoint: number, transitions: number, nowMs: number): void {
    const told = this.toldAtMs[endpoint]!;
    for (let i = 0; i < transitions; i++) told.push(nowMs);
  }

  /** The watch showed that the endpoint's key has this status now. */
  seen(endpoint: number, status: Status, nowMs: number): void {
    if (status === this.#status[endpoint]) {
      this.repeated++;
      const lastAtMs = this.#lastAtMs[endpoint]!;
      const { confirmAfterMs } = this.#options;
      if (confirmAfterMs === Number.POSITIVE_INFINITY || nowMs - lastAtMs < confirmAfterMs - watchJitterMs)
        this.repeatedTooSoon++;
      this.#lastAtMs[endpoint] = nowMs;
      return;
    }
    this.#status[endpoint] = status;
    this.#lastAtMs[endpoint] = nowMs;
    const commits = this.committedAtMs[endpoint]!;
    const k = commits.length;
    commits.push(nowMs);
    this.committed++;
    this.lastCommitAtMs = nowMs;
    const toldAtMs = this.toldAtMs[endpoint]![k];
    if (toldAtMs === undefined || this.#options.expected[endpoint]![k] !== status) return; // the verifier says what it is
    const latencyMs = nowMs - toldAtMs;
    this.all.add(latencyMs);
    if (this.#options.hot) (endpoint === 0 ? this.hot : this.others).add(latencyMs);
  }
}
