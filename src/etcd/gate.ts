/**
 * A worker's share of the host's rate, held a second time.
 *
 * The core's token bucket decides when a transaction goes. A bucket of rate R and burst B never lets more than B + R
 * through in any second, and the pool deals transactions out in turn, so no worker of n ever gets more than
 * ceil((B + R) / n) of them: that is what this queue lets through in any second. A sender that keeps to its bucket is
 * never delayed here, and one that does not (a fault, a main thread that stalled and then hurries) cannot exceed it.
 */
import PQueue from 'p-queue';

export class RateGate {
  readonly #concurrency: number;
  #perSecondMax = 0;
  /** Null without a limit. */
  #queue: PQueue | null = null;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
  }

  /**
   * Runs the job when its turn has come. `perSecondMax`: 0 is no limit, and then it is at once. Where it differs from the
   * last one, a new window begins; what waits goes on under the old one.
   */
  run<Result>(perSecondMax: number, job: () => Promise<Result>): Promise<Result> {
    if (perSecondMax !== this.#perSecondMax) {
      this.#perSecondMax = perSecondMax;
      this.#queue = perSecondMax === 0 ? null : this.#newQueue(perSecondMax);
    }
    return this.#queue === null ? job() : this.#queue.add(job);
  }

  #newQueue(perSecondMax: number): PQueue {
    const limits = { interval: 1000, intervalCap: perSecondMax, strict: true };
    return new PQueue({ concurrency: this.#concurrency, ...limits });
  }
}
