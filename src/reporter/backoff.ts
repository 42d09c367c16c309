/** How long to wait before a try is repeated. Pure: the randomness is given. */
export interface BackoffOptions {
  readonly firstMs: number;
  readonly maxMs: number;
}

export const laneBackoff: BackoffOptions = { firstMs: 100, maxMs: 5000 };
export const claimBackoff: BackoffOptions = { firstMs: 200, maxMs: 10_000 };
/** A missing permission is somebody's change to make; asking more often only fills etcd's log. */
export const deniedRetryMs = 30_000;

/** From half of it to all of it, so that a fleet whose etcd comes back does not move as one. `random`: uniform in [0, 1). */
export function jitteredMs(ms: number, random: number): number {
  return ms * (0.5 + random / 2);
}

/** Exponential, with jitter. `failures` counts from 1. */
export function backoffMs(failures: number, options: BackoffOptions, random: number): number {
  return jitteredMs(Math.min(options.maxMs, options.firstMs * 2 ** Math.min(failures - 1, 30)), random);
}
