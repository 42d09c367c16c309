/** The whole of a storm before it begins: which endpoint is told which status, step by step. Pure, and seeded. */
import { Status } from '../../endpoints/status.js';
import type { Expectation, Known } from './expectation.js';
import { Random } from './random.js';

export interface PlanOptions {
  readonly seed: number;
  readonly endpoints: number;
  /** How many revisions etcd must get; see expectation.ts for how that differs from what is told. */
  readonly transitions: number;
  /** The share of all transitions that endpoint 0 takes; null: it is one among equals. */
  readonly hot: number | null;
  /** What etcd gets for what is told. */
  readonly expectedOf: Expectation;
  /** How often an endpoint is removed instead of going to its other status. */
  readonly removals: number;
  /** What every endpoint has when the storm begins. */
  readonly initial: Known;
}

export interface Plan {
  /** Steps run in parallel arrays: step i tells endpoint `endpoints[i]` to be `statuses[i]`. */
  readonly endpoints: Uint32Array;
  readonly statuses: Uint8Array;
  /** Steps; never more than the transitions. */
  readonly length: number;
  /** By endpoint: what etcd must get, in order. */
  readonly expected: readonly (readonly Status[])[];
  /** How many transitions etcd must get; what the options asked for. */
  readonly transitions: number;
}

/** A removed endpoint mostly comes back `up`, as a rebuilt VM does. */
const backUp = 0.75;

/** Throws a RangeError for options that no storm can be made of. */
export function makePlan(options: PlanOptions): Plan {
  const { endpoints, transitions, hot, expectedOf } = options;
  if (!(endpoints >= 1 && Number.isInteger(endpoints)))
    throw new RangeError('a storm needs at least one endpoint');
  if (!(transitions >= 1 && Number.isInteger(transitions)))
    throw new RangeError('a storm needs at least one transition');
  if (hot !== null && !(hot > 0 && hot <= 1)) throw new RangeError('the hot share is above 0 and at most 1');

  const random = new Random(options.seed);
  const known: Known[] = new Array<Known>(endpoints).fill(options.initial);
  const expected: Status[][] = Array.from({ length: endpoints }, () => []);
  const stepEndpoints = new Uint32Array(transitions);
  const stepStatuses = new Uint8Array(transitions);
  let steps = 0;
  for (let planned = 0; planned < transitions; steps++) {
    const endpoint = pickEndpoint(random, endpoints, hot);
    const before = known[endpoint]!;
    let told = nextStatus(random, before, options.removals);
    let gets = expectedOf(before, told);
    if (planned + gets.length > transitions) {
      told = Status.down; // the last one has no room for two, and down is never more than one
      gets = expectedOf(before, told);
    }
    stepEndpoints[steps] = endpoint;
    stepStatuses[steps] = told;
    known[endpoint] = told;
    expected[endpoint]!.push(...gets);
    planned += gets.length;
  }
  return {
    endpoints: stepEndpoints.subarray(0, steps),
    statuses: stepStatuses.subarray(0, steps),
    length: steps,
    expected,
    transitions,
  };
}

function pickEndpoint(random: Random, endpoints: number, hot: number | null): number {
  if (hot === null || endpoints === 1) return random.below(endpoints);
  return random.chance(hot) ? 0 : 1 + random.below(endpoints - 1);
}

function nextStatus(random: Random, before: Known, removals: number): Status {
  switch (before) {
    case null:
      return random.chance(0.5) ? Status.up : Status.down;
    case Status.removed:
      return random.chance(backUp) ? Status.up : Status.down;
    default:
      if (random.chance(removals)) return Status.removed;
      return before === Status.up ? Status.down : Status.up;
  }
}
