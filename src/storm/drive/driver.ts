/** What brings a planned storm to flapd: through the feed socket (feed.ts) or through real interfaces (netlink.ts). */
import type { EndpointId } from '../../endpoints/id.js';
import type { Plan } from '../plan/plan.js';
import type { Pace } from './pace.js';

export interface DriverEvents {
  /** Step `step` of the plan was told just now, for the first time. Monotonic milliseconds. */
  told(step: number, nowMs: number): void;
}

export interface Driver {
  /** By endpoint. */
  readonly ids: readonly EndpointId[];
  /** Steps that flapd is known to have taken: acknowledged, or carried out. */
  readonly taken: number;
  /** How often flapd has been connected to; null for a driver that needs no connection. */
  readonly connections: number | null;
  /** Brings about what must be there before flapd starts. */
  prepare(): Promise<void>;
  /** Resolves when flapd listens. */
  connect(signal: AbortSignal): Promise<void>;
  /** Carries the plan out. Resolves when every step is taken; rejects with what makes that impossible. */
  run(plan: Plan, pace: Pace, events: DriverEvents, signal: AbortSignal): Promise<void>;
  /** What is wrong between plan and world after the run, such as carrier counters that do not add up; null: nothing. */
  crossCheck(plan: Plan): string | null;
  close(): Promise<void>;
}
