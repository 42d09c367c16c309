/** When a storm's faults come: at a share of its transitions, so that they fall into short storms and long ones alike. */
import { Random } from './random.js';

export type Fault =
  | { readonly kind: 'killFlapd'; readonly at: number; readonly delayMs: number }
  | { readonly kind: 'killEtcd'; readonly at: number; readonly delayMs: number; readonly downMs: number }
  | { readonly kind: 'stopEtcd'; readonly at: number; readonly delayMs: number; readonly stoppedMs: number };

export type FaultKind = Fault['kind'];

export interface FaultOptions {
  readonly seed: number;
  readonly chaos: boolean;
  /** With chaos: how often flapd is killed at least. */
  readonly flapdKills: number;
  /** In (0, 1); null: never. */
  readonly etcdKillAt: number | null;
  readonly etcdStopAt: number | null;
  readonly etcdStopForMs: number;
}

/** What `--chaos` promises at least, unless told otherwise. */
export const chaosFlapdKills = 10;
export const chaosEtcdKills = 3;

/** How long etcd stays away where nothing else is said. */
const etcdDownMs = 500;

/**
 * The faults in the order in which they come. `at` is a share of the storm's transitions, in (0, 1); `delayMs` passes
 * after that share is reached, so that the moment is no round one.
 */
export function planFaults(options: FaultOptions): readonly Fault[] {
  const faults: Fault[] = [];
  if (options.etcdKillAt !== null)
    faults.push({ kind: 'killEtcd', at: options.etcdKillAt, delayMs: 0, downMs: etcdDownMs });
  if (options.etcdStopAt !== null)
    faults.push({ kind: 'stopEtcd', at: options.etcdStopAt, delayMs: 0, stoppedMs: options.etcdStopForMs });
  if (options.chaos) {
    const random = new Random(options.seed ^ 0x63_68_61_6f);
    for (const at of spread(random, options.flapdKills + random.below(3)))
      faults.push({ kind: 'killFlapd', at, delayMs: random.below(20) });
    for (const at of spread(random, chaosEtcdKills + random.below(2)))
      faults.push({ kind: 'killEtcd', at, delayMs: random.below(20), downMs: random.below(2 * etcdDownMs) });
  }
  return faults.sort((a, b) => a.at - b.at);
}

/** One share in each of `count` equal parts of (0, 0.95]: faults too near the end would meet no storm. */
function spread(random: Random, count: number): number[] {
  const part = 0.95 / count;
  return Array.from({ length: count }, (_, i) => Math.max(1e-6, (i + random.next()) * part));
}
