/** How much the bench does: what a figure is taken from, never what it means. */

export interface Sizes {
  readonly rounds: number;
  /** Of each baseline. */
  readonly seconds: number;
  /** In a round, of a flapd beside its baseline. */
  readonly storms: number;
  /** Of each storm of flapd. */
  readonly transitions: number;
  /** So many times as many come before the first, in which nothing is measured: V8 goes on compiling for half a million of them. */
  readonly warm: number;
  readonly manyEndpoints: number;
  readonly netlinkSeconds: number;
  readonly idle: { readonly afterSeconds: number; readonly seconds: number };
  readonly curves: CurveSizes;
}

/** Each list is the x of a curve. */
export interface CurveSizes {
  /** Of each point's storm, about. */
  readonly seconds: number;
  readonly endpoints: readonly number[];
  readonly operations: readonly number[];
  readonly watchBytes: readonly number[];
  readonly lanes: readonly number[];
  readonly workers: readonly number[];
  readonly latency: { readonly perSecond: readonly number[]; readonly seconds: number };
  /** Accepted while etcd is away, and so many a second more from then on. */
  readonly drain: { readonly transitions: number; readonly perSecond: number };
}

export const full: Sizes = {
  rounds: 5,
  seconds: 3,
  storms: 3,
  transitions: 300_000,
  warm: 2.5,
  manyEndpoints: 100_000,
  netlinkSeconds: 5,
  idle: { afterSeconds: 40, seconds: 10 },
  curves: {
    seconds: 3,
    endpoints: [10, 100, 1000, 10_000, 100_000],
    operations: [8, 16, 32, 64, 128],
    watchBytes: [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000],
    lanes: [1, 2, 4, 8, 16],
    workers: [1, 2, 4],
    latency: { perSecond: [10, 100, 500, 1000], seconds: 10 },
    drain: { transitions: 500_000, perSecond: 2000 },
  },
};

export const quick: Sizes = {
  rounds: 1,
  seconds: 1.5,
  storms: 2,
  transitions: 160_000,
  warm: 2.5,
  manyEndpoints: 100_000,
  netlinkSeconds: 2,
  idle: { afterSeconds: 20, seconds: 5 },
  curves: {
    seconds: 1,
    endpoints: [100, 10_000],
    operations: [16, 128],
    watchBytes: [],
    lanes: [],
    workers: [],
    latency: { perSecond: [100, 1000], seconds: 1 },
    drain: { transitions: 100_000, perSecond: 2000 },
  },
};

/** The same with a part of the work, to see that everything works: its figures mean little. */
export function scaled(sizes: Sizes, scale: number): Sizes {
  const of = (count: number, least: number): number => Math.max(least, Math.round(count * scale));
  const first = (points: readonly number[]): readonly number[] =>
    points.slice(0, Math.ceil(points.length * scale));
  const { idle, curves } = sizes;
  const { latency, drain } = curves;
  return {
    rounds: sizes.rounds,
    seconds: Math.max(0.5, sizes.seconds * scale), // what runs less has not begun
    storms: sizes.storms,
    transitions: of(sizes.transitions, 1000),
    warm: sizes.warm,
    manyEndpoints: of(sizes.manyEndpoints, 1000),
    netlinkSeconds: sizes.netlinkSeconds * scale,
    idle: { afterSeconds: idle.afterSeconds * scale, seconds: idle.seconds * scale },
    curves: {
      seconds: curves.seconds * scale,
      endpoints: first(curves.endpoints),
      operations: first(curves.operations),
      watchBytes: first(curves.watchBytes),
      lanes: first(curves.lanes),
      workers: first(curves.workers),
      latency: { perSecond: first(latency.perSecond), seconds: Math.max(0.5, latency.seconds * scale) },
      drain: { ...drain, transitions: of(drain.transitions, 1000) },
    },
  };
}
