/** Latencies of a storm, every one of them kept: a percentile is exact. Milliseconds. */
export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

export class Latencies {
  #values: Float64Array;
  #length = 0;

  constructor(capacity: number) {
    this.#values = new Float64Array(Math.max(16, capacity));
  }

  get count(): number {
    return this.#length;
  }

  add(latencyMs: number): void {
    if (this.#length === this.#values.length) {
      const grown = new Float64Array(2 * this.#values.length);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.#length++] = latencyMs;
  }

  /** Null where there are none: no figure is better than a made-up one. */
  percentiles(): Percentiles | null {
    if (this.#length === 0) return null;
    const sorted = this.#values.slice(0, this.#length).sort();
    return { p50: rank(sorted, 0.5), p99: rank(sorted, 0.99) };
  }
}

/** Nearest rank: the smallest value that at least this share of all do not exceed. */
function rank(sorted: Float64Array, share: number): number {
  return round3(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!);
}

function round3(value: number): number {
  return Math.round(value * 1000) / 1000;
}
