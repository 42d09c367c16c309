import type { TargetName } from './targets.js';

/** By name, the figures of all rounds; of targets and of what they are made of. */
export class Samples {
  readonly #figures = new Map<string, number[]>();
  readonly #faults = new Map<string, string>();

  add(name: string, figure: number): void {
    if (!Number.isFinite(figure)) throw new Error(`${name} is ${figure}: nothing was done`);
    this.#figures.set(name, [...(this.#figures.get(name) ?? []), figure]);
  }

  against(name: TargetName, figure: number, baseline: number): void {
    this.add(name, figure / baseline);
  }

  /** Whatever its figures are, the target is not reached: something was lost, or could not be measured. */
  fault(name: TargetName, why: string): void {
    this.#faults.set(name, why);
  }

  faultOf(name: string): string | undefined {
    return this.#faults.get(name);
  }

  /** Sorted. */
  of(name: string): readonly number[] {
    return [...(this.#figures.get(name) ?? [])].sort((a, b) => a - b);
  }

  /** Null where there is none. */
  medianOf(name: string): number | null {
    const figures = this.of(name);
    return figures.length === 0 ? null : medianOf(figures);
  }

  get names(): readonly string[] {
    return [...this.#figures.keys()];
  }
}

/** Of sorted figures, of which there are some. */
function medianOf(figures: readonly number[]): number {
  const middle = figures.length / 2;
  return (figures[Math.ceil(middle) - 1]! + figures[Math.floor(middle)]!) / 2;
}
