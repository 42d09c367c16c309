/** What flapd is measured against, and what is promised (docs/performance.md). Ratios are medians within one run. */
export interface Target {
  readonly name: string;
  readonly about: string;
  readonly target: number;
  /** Whether more than the target is good. */
  readonly more: boolean;
  /** Of a figure that is no ratio. */
  readonly unit?: string;
}

export const targets = [
  {
    name: 'sustained against ceiling',
    about:
      'transitions/s of 1,000 endpoints, against ready-made transactions of as many operations and in flight',
    target: 0.9,
    more: true,
  },
  {
    name: 'sustained against ceiling at 5',
    about: 'the same with txn.watchBytesMax at its default, against 5 endpoints a transaction',
    target: 0.9,
    more: true,
  },
  {
    name: 'against put-per-event',
    about: 'transitions/s, against a hundred single puts in flight',
    target: 5,
    more: true,
  },
  {
    name: 'against felix-serial',
    about: "transitions/s, against Felix's one write after another, without its rate limit",
    target: 40,
    more: true,
  },
  {
    name: 'one endpoint alone',
    about: 'transitions/s of a single endpoint, against single puts one after another',
    target: 0.95,
    more: true,
  },
  {
    name: 'latency at 100/s',
    about: 'p50 from accepted to seen in etcd by a watch, against the p50 of a bare put, at the same pace',
    target: 1.5,
    more: false,
  },
  {
    name: 'CPU per transition',
    about: 'in a storm of 1,000 endpoints: main thread, workers, V8',
    target: 10,
    more: false,
    unit: 'us',
  },
  {
    name: 'CPU at 100,000 endpoints',
    about: 'per transition, against 1,000 endpoints',
    target: 1.3,
    more: false,
  },
  { name: 'idle CPU', about: 'with 1,000 endpoints', target: 0.5, more: false, unit: '% of a core' },
  { name: 'idle RSS', about: 'with 1,000 endpoints', target: 90, more: false, unit: 'MiB' },
  {
    name: 'netlink at 10,000/s',
    about:
      'CPU of the main thread for 10,000 link messages of flapping interfaces, none of them lost; the reader’s process apart',
    target: 40,
    more: false,
    unit: '% of a core',
  },
  {
    name: 'cold start',
    about: 'with 1,000 endpoints that etcd has already: from the start of the process to ready',
    target: 1000,
    more: false,
    unit: 'ms',
  },
  { name: 'cold start writes', about: 'writes of statuses in it', target: 0, more: false, unit: 'writes' },
] as const satisfies readonly Target[];

export type TargetName = (typeof targets)[number]['name'];
