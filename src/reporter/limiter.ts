/**
 * The host's token bucket, one token a transaction, with a rate that gives way to an overloaded etcd:
 * halved at once, then raised again step by step (additive increase, multiplicative decrease), as TCP does.
 * Pure: time is an argument, in monotonic milliseconds.
 */
export interface LimiterOptions {
  /** Transactions a second; 0 switches the limit off. */
  readonly txnsPerSecond: number;
  /** Transactions that may go at once after a quiet time. */
  readonly burst: number;
}

/** Never below: a host that is held back for ever would report nothing. */
const rateMin = 1;
/** One congestion is answered once, however many transactions of it come back with the same signal. */
const overloadEveryMs = 1000;
/** From a halved rate back to the set one in this many steps of a second each. */
const recoverySteps = 20;
/** A token that is due must not be missed by a rounding error. */
const whole = 1 - 1e-6;

export class Limiter {
  #set: LimiterOptions;
  #rate: number;
  #tokens: number;
  #filledAtMs = Number.NEGATIVE_INFINITY;
  #overloadedAtMs = Number.NEGATIVE_INFINITY;
  #raisedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: LimiterOptions) {
    this.#set = options;
    this.#rate = options.txnsPerSecond;
    this.#tokens = options.burst;
  }

  /** Transactions a second allowed now; 0: no limit. */
  get rate(): number {
    return this.#rate;
  }

  /** Other limits from now on. What an overload has taken from the rate stays taken until it is earned back. */
  reconfigure(options: LimiterOptions, nowMs: number): void {
    this.#fill(nowMs);
    const given = this.#set.txnsPerSecond === 0 ? 1 : this.#rate / this.#set.txnsPerSecond;
    this.#set = options;
    this.#rate = options.txnsPerSecond * given;
    this.#tokens = Math.min(options.burst, this.#tokens);
  }

  /** Takes a token if there is one. */
  take(nowMs: number): boolean {
    if (this.#set.txnsPerSecond === 0) return true;
    this.#fill(nowMs);
    if (this.#tokens < whole) return false;
    this.#tokens -= 1;
    return true;
  }

  /** When the next token is there; `nowMs` where there is one. */
  nextAtMs(nowMs: number): number {
    if (this.#set.txnsPerSecond === 0) return nowMs;
    this.#fill(nowMs);
    return this.#tokens >= whole ? nowMs : nowMs + ((1 - this.#tokens) / this.#rate) * 1000;
  }

  /** etcd says that it has too much to do. */
  overloaded(nowMs: number): void {
    if (this.#set.txnsPerSecond === 0 || nowMs - this.#overloadedAtMs < overloadEveryMs) return;
    this.#fill(nowMs);
    this.#overloadedAtMs = nowMs;
    this.#raisedAtMs = nowMs;
    this.#rate = Math.max(Math.min(rateMin, this.#set.txnsPerSecond), this.#rate / 2);
    this.#tokens = Math.min(this.#tokens, 1);
  }

  #fill(nowMs: number): void {
    if (this.#filledAtMs === Number.NEGATIVE_INFINITY) this.#filledAtMs = nowMs;
    const earned = ((nowMs - this.#filledAtMs) / 1000) * this.#rate;
    this.#tokens = Math.min(this.#set.burst, this.#tokens + earned);
    this.#filledAtMs = nowMs;
    if (this.#rate < this.#set.txnsPerSecond) {
      const steps = Math.floor((nowMs - this.#raisedAtMs) / 1000);
      if (steps > 0) {
        this.#rate = Math.min(
          this.#set.txnsPerSecond,
          this.#rate + (steps * this.#set.txnsPerSecond) / recoverySteps,
        );
        this.#raisedAtMs += steps * 1000;
      }
    }
  }
}
