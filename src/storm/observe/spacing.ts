/**
 * Whether transitions of one endpoint were spaced as docs/design.md, section 9 says: at least
 * min(endpointDelay, endpointCatchUp / pending) apart, by the most that was pending since nothing was. Pure.
 *
 * The storm sees commits, not what was pending inside flapd when it chose the distance. But that cannot have been more
 * than what had been told and was not committed when the later transition was seen: so this many give a distance
 * that flapd must at least have kept. A gap is measured between two arrivals at the storm's watch, whose delay
 * varies: a gap counts as too short only if it is so by more than the tolerance.
 */
import { catchUpShare } from '../../reporter/schedule.js';
import { watchJitterMs } from './tracker.js';

export interface SpacingRule {
  readonly endpointDelayMs: number;
  readonly endpointCatchUpMs: number;
}

export interface Spacing {
  /** The shortest gap between two transitions of one endpoint; null: there were no two. */
  readonly min: number | null;
  readonly violations: number;
}

/**
 * @param toldAtMs by endpoint: when each expected transition was told, rising
 * @param committedAtMs by endpoint: when each transition's commit was seen, in order (confirming writes left out)
 */
export function judgeSpacing(
  rule: SpacingRule,
  toldAtMs: readonly (readonly number[])[],
  committedAtMs: readonly (readonly number[])[],
): Spacing {
  let min: number | null = null;
  let violations = 0;
  committedAtMs.forEach((commits, endpoint) => {
    const told = toldAtMs[endpoint] ?? [];
    let toldBefore = 0;
    let pendingMax = 1;
    for (let k = 0; k < commits.length; k++) {
      const at = commits[k]!;
      while (toldBefore < told.length && told[toldBefore]! <= at) toldBefore++;
      if (k > 0 && told[k]! > commits[k - 1]!) pendingMax = 1; // the backlog was gone in between
      pendingMax = Math.max(pendingMax, toldBefore - k);
      if (k === 0) continue;
      const required = Math.min(rule.endpointDelayMs, (catchUpShare * rule.endpointCatchUpMs) / pendingMax);
      const gap = at - commits[k - 1]!;
      if (min === null || gap < min) min = gap;
      // Half of a short distance is still asked for, so that the tolerance never excuses everything.
      if (gap < required - Math.min(watchJitterMs, required / 2)) violations++;
    }
  });
  return { min: min === null ? null : Math.round(min * 10) / 10, violations };
}
