/** What the bench prints and keeps: one object. Pure. */
import type { Curves } from './curves/curves.js';
import type { Samples } from './macro/samples.js';
import { type Target, targets } from './macro/targets.js';

export interface Row {
  readonly name: string;
  /** The median of the rounds; of a target with a unit, the figure itself. Null: it could not be measured. */
  readonly ratio: number | null;
  readonly target: number;
  readonly ok: boolean;
  readonly spread: readonly [number, number] | null;
  readonly unit?: string;
  readonly about: string;
  /** Why it is not ok, where that is not for the figure. */
  readonly why?: string;
}

export interface Machine {
  readonly cores: number;
  readonly cpu: string;
  readonly memoryGiB: number;
  readonly kernel: string;
  readonly node: string;
  readonly etcd: string;
}

export interface Result {
  readonly date: string;
  readonly machine: Machine;
  readonly rounds: number;
  /** How much of the usual work was done; below 1 figures mean little. */
  readonly scale: number;
  /** All of it. */
  readonly seconds: number;
  readonly rows: readonly Row[];
  /** Medians by name. */
  readonly figures: Readonly<Record<string, number>>;
  readonly curves: Curves;
}

export function rowsOf(samples: Samples): Row[] {
  return targets.map((target) => rowOf(samples, target));
}

function rowOf(samples: Samples, { name, about, target, more, unit }: Target): Row {
  const ratio = samples.medianOf(name);
  const figures = samples.of(name);
  const why = samples.faultOf(name);
  const reached = ratio !== null && (more ? ratio >= target : ratio <= target);
  return {
    name,
    ratio: ratio === null ? null : rounded(ratio),
    target,
    ok: reached && why === undefined,
    spread: ratio === null ? null : [rounded(figures[0]!), rounded(figures.at(-1)!)],
    ...(unit !== undefined && { unit }),
    about,
    ...(why !== undefined && { why }),
  };
}

export function figuresOf(samples: Samples): Record<string, number> {
  return Object.fromEntries(samples.names.map((name) => [name, rounded(samples.medianOf(name)!)]));
}

export function roundedCurves(curves: Curves): Curves {
  const entries = Object.entries(curves).map(([name, points]) => [
    name,
    points.map((point) =>
      Object.fromEntries(Object.entries(point).map(([key, of]) => [key, rounded(of, 4)])),
    ),
  ]);
  return Object.fromEntries(entries) as Curves;
}

function rounded(figure: number, digits = 3): number {
  return Number(figure.toPrecision(digits));
}
