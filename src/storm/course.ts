/** What was seen of a storm, for conclude.ts to judge. */
import type { GatewayWatch } from './observe/gateway.js';
import type { Tracker } from './observe/tracker.js';
import type { StormOptions } from './options.js';
import type { Known } from './plan/expectation.js';
import type { Plan } from './plan/plan.js';
import type { Usage } from './subject/usage.js';

export interface Course {
  readonly options: StormOptions;
  readonly plan: Plan;
  readonly tracker: Tracker;
  readonly initial: Known;
  /** Of etcd, when the storm began. */
  readonly revision: number;
  readonly startedAtMs: number;
  readonly usage: Usage;
  readonly gateway: GatewayWatch | null;
  readonly interrupted: boolean;
  readonly problems: readonly string[];
}
