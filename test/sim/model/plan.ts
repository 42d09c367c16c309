/** What one seed simulates: the host, its settings, and what goes wrong. */
import type { ReporterOptions } from '../../../src/reporter/reporter.js';
import type { FaultRates } from './faults.js';
import type { Random } from './random.js';

export interface Plan {
  /** Nothing goes wrong. */
  readonly quiet: boolean;
  readonly endpoints: number;
  readonly transitions: number;
  /** Share of the transitions that one endpoint makes; 0: all alike. */
  readonly hot: number;
  readonly removals: boolean;
  /** Mean time between transitions of the host. */
  readonly gapMs: number;
  readonly delayMsMax: number;
  /** Between the main thread and the worker. */
  readonly hopMs: number;
  readonly rates: FaultRates;
  readonly crashes: number;
  readonly journalLosses: number;
  readonly outages: number;
  readonly setBacks: number;
  readonly takeovers: number;
  readonly denials: number;
  readonly limitChanges: number;
  readonly poisoned: number;
  readonly reporter: Omit<ReporterOptions, 'random' | 'append'>;
}

export function makePlan(random: Random): Plan {
  const endpoints = random.skewed(1, random.chance(0.02) ? 500 : 40);
  const quiet = random.chance(0.15);
  const rate = (): number => (quiet || random.chance(0.5) ? 0 : random.next() * 0.15);
  const often = (probability: number, most: number): number =>
    quiet || !random.chance(probability) ? 0 : 1 + random.below(most);
  const spaced = random.chance(0.3);
  const limited = random.chance(0.3);
  const takeovers = often(0.1, 1);
  return {
    quiet,
    endpoints,
    transitions: random.skewed(1, random.chance(0.05) ? 1500 : 200),
    hot: random.chance(0.3) ? 0.9 * random.next() : 0,
    removals: random.chance(0.6),
    gapMs: random.chance(0.2) ? 0 : random.skewed(1, 100),
    delayMsMax: random.skewed(1, 200),
    hopMs: random.chance(0.5) ? 0 : random.below(10),
    rates: {
      lostRequest: rate(),
      lostAnswer: rate(),
      late: rate() / 2,
      noSpace: rate(),
      overloaded: rate(),
      unauthenticated: rate(),
      worker: rate(),
    },
    crashes: often(0.4, 4),
    journalLosses: often(0.15, 2),
    outages: often(0.3, 2),
    // Set back to before a take-over, the first instance may be the one that wins: not told apart here.
    setBacks: takeovers > 0 ? 0 : often(0.15, 2),
    takeovers,
    denials: often(0.1, 2),
    limitChanges: often(0.2, 3),
    poisoned: often(0.1, 2),
    reporter: {
      lanes: 1 + random.below(4),
      sackMax: random.chance(0.3) ? 1 + random.below(8) : 1024,
      txn: {
        maxOps: random.chance(0.3) ? 2 + random.below(6) : 128,
        bytesMax: random.chance(0.2) ? 300 : 1 << 20,
        watchBytesMax: random.chance(0.4) ? 2000 : 0,
      },
      limits: { txnsPerSecond: limited ? 1 + random.below(50) : 0, burst: 1 + random.below(100) },
      schedule: {
        endpointDelayMs: spaced ? 1000 : 0,
        endpointCatchUpMs: 10_000,
        confirm: random.chance(0.5),
        confirmAfterMs: 2000,
        confirmAfterOutageMs: 15_000,
      },
      pendingMax: random.chance(0.05) ? 5 + random.below(20) : 5_000_000,
      startJitterMs: random.below(200),
    },
  };
}
