import { Command } from 'commander';
import type { StatusReport } from '../daemon/operate/figures.js';
import { addAdminOptions, askDaemon } from './admin.js';

export function statusCommand(): Command {
  return addAdminOptions(new Command('status').description('how the running daemon does')).action(
    async (options: Record<string, unknown> & { json: boolean }) => {
      const report = await askDaemon<StatusReport>(options, 'GET', '/status');
      console.log(options.json ? JSON.stringify(report) : statusText(report));
    },
  );
}

export function statusText(report: StatusReport): string {
  const { health, etcd, journal, lanes, dataplane } = report;
  const state = health.ready ? (health.degraded ? 'ready, but degraded' : 'ready') : 'not ready';
  const rows: [string, string][] = [
    ['flapd', `${report.version}, process ${report.pid}, up for ${report.uptimeSeconds} s`],
    ['state', [state, ...health.reasons].join('; ')],
    ['host', report.region === null ? report.host : `${report.host}, region ${report.region}`],
    ['etcd', `${etcd.endpoints.join(', ')}: ${etcd.up ? 'up' : 'not up'} (${etcd.state})`],
    ['epoch', report.epoch === 0 ? 'not claimed' : String(report.epoch)],
    ['sources', listOf(report.sources, (inSync) => (inSync ? 'in sync' : 'not in sync'))],
    ...(dataplane === null
      ? []
      : [
          ['dataplane', `up for ${dataplane.uptimeSeconds} s, heard ${dataplane.heardSecondsAgo} s ago`] as [
            string,
            string,
          ],
        ]),
    ['endpoints', listOf(report.endpoints, String)],
    [
      'pending',
      report.pending === 0
        ? 'nothing'
        : `${report.pending}, the oldest for ${report.oldestPendingSeconds.toFixed(1)} s`,
    ],
    ['committed', String(report.committed)],
    ['rate', report.rate === 0 ? 'no limit' : `${report.rate.toFixed(1)} transactions/s allowed`],
    [
      'journal',
      journal.directory === null
        ? 'none: what is pending is in memory alone'
        : `${journal.directory}, ${(journal.bytes / 2 ** 20).toFixed(1)} MiB${journal.accepting ? '' : ', FULL'}`,
    ],
    ...lanes.map(({ lane, pending, inflight, failures, ack }): [string, string] => [
      `lane ${lane}`,
      `${pending} pending, ${inflight ? 'a transaction under way' : 'idle'}, ack ${ack}` +
        (failures > 0 ? `, ${failures} failed tries` : ''),
    ]),
  ];
  return rows.map(([name, value]) => `${name.padEnd(10)} ${value}`).join('\n');
}

function listOf<T>(record: Readonly<Record<string, T>>, text: (value: T) => string): string {
  const entries = Object.entries(record).map(([name, value]) => `${name}: ${text(value)}`);
  return entries.length === 0 ? 'none' : entries.join(', ');
}
