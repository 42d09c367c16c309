/** The outcome of a storm: one JSON object (docs/design.md, section 13), or a table for people. */
import type { Percentiles } from './observe/latency.js';
import type { Spacing } from './observe/spacing.js';

export interface StormReport {
  readonly via: 'feed' | 'netlink';
  readonly endpoints: number;
  readonly seed: number;
  readonly production: boolean;
  /** Transitions that etcd had to get. */
  readonly sent: number;
  /** Transitions in etcd's history. */
  readonly committed: number;
  /** Null: the history could not be read; `problems` says why. */
  readonly lost: number | null;
  readonly duplicated: number | null;
  readonly reordered: number | null;
  /** From the first telling to the last commit. */
  readonly seconds: number;
  readonly transitionsPerSecond: number;
  /** From the telling to the commit, seen by a watch. `hot` and `others` with --hot alone. */
  readonly latencyMs: {
    readonly p50: number | null;
    readonly p99: number | null;
    readonly hot?: Percentiles | null;
    readonly others?: Percentiles | null;
  };
  /** CPU time of the flapd process; null where nothing was committed. */
  readonly cpuMicrosPerTransition: number | null;
  /** The most memory that it ever had. */
  readonly rssMiB: number;
  /** Final values put once more; no transitions. */
  readonly confirmations: number;
  readonly flapdKills: number;
  readonly etcdKills: number;
  readonly etcdStops: number;
  /** With --production: the longest answer of etcd's JSON gateway for one transaction. */
  readonly watchAnswerBytesMax?: number;
  /** With --production: the shortest gap between transitions of one endpoint, and how many gaps were too short. */
  readonly spacingMs?: Spacing;
  readonly interrupted: boolean;
  /** Empty: the storm has passed. */
  readonly problems: readonly string[];
}

export function passed(report: StormReport): boolean {
  return report.problems.length === 0 && !report.interrupted;
}

/** The table, without a final newline. */
export function describe(report: StormReport): string {
  const rows: [string, string][] = [
    [
      'sent',
      `${report.sent} transitions of ${report.endpoints} endpoints via ${report.via} (seed ${report.seed})`,
    ],
    ['committed', String(report.committed)],
    ['lost', count(report.lost)],
    ['duplicated', count(report.duplicated)],
    ['reordered', count(report.reordered)],
    ['time', `${report.seconds} s, ${report.transitionsPerSecond} transitions/s`],
    ['latency', percentiles(report.latencyMs)],
  ];
  const { hot, others } = report.latencyMs;
  if (hot !== undefined) rows.push(['  hot endpoint', percentiles(hot)]);
  if (others !== undefined) rows.push(['  the others', percentiles(others)]);
  rows.push(
    ['flapd', `${report.cpuMicrosPerTransition ?? '-'} us CPU per transition, ${report.rssMiB} MiB at most`],
    ['confirmations', String(report.confirmations)],
  );
  if (report.flapdKills + report.etcdKills + report.etcdStops > 0)
    rows.push([
      'faults',
      `flapd killed ${report.flapdKills} times, etcd killed ${report.etcdKills} times and stopped ${report.etcdStops} times`,
    ]);
  if (report.watchAnswerBytesMax !== undefined)
    rows.push(['watch answers', `${report.watchAnswerBytesMax} bytes at most`]);
  if (report.spacingMs !== undefined)
    rows.push([
      'spacing',
      `${report.spacingMs.min ?? '-'} ms at least, ${report.spacingMs.violations} too short`,
    ]);
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
  lines.push('', verdict(report));
  for (const problem of report.problems) lines.push(`  - ${problem}`);
  return lines.join('\n');
}

function verdict(report: StormReport): string {
  if (report.interrupted) return 'Interrupted: these are the figures up to then.';
  return passed(report) ? 'Passed: every transition is in etcd, once, in order.' : 'Failed:';
}

function count(value: number | null): string {
  return value === null ? 'not known' : String(value);
}

function percentiles(value: { readonly p50: number | null; readonly p99: number | null } | null): string {
  return value === null || value.p50 === null ? '-' : `p50 ${value.p50} ms, p99 ${value.p99} ms`;
}
