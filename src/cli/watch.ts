import { Command } from 'commander';
import { connectionOf } from '../daemon/connection.js';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { parseStatusValue } from '../endpoints/key.js';
import { statusName } from '../endpoints/status.js';
import { openEtcd } from '../etcd/client.js';
import { listPrefix } from '../etcd/list.js';
import { watchPrefix } from '../etcd/watch.js';
import { addSettingOptions, settingsFrom } from './options.js';

/** Where Calico keeps statuses, of all hosts and regions. */
const prefixes = ['/calico/felix/v2/', '/calico/felix/v1/host/'] as const;
const workloadKey =
  /^\/calico\/felix\/v2\/([^/]+)\/host\/([^/]+)\/workload\/([^/]+)\/([^/]+)\/endpoint\/([^/]+)$/;
const hostKey = /^\/calico\/felix\/v1\/host\/([^/]+)\/endpoint\/([^/]+)$/;

interface Line {
  readonly time: string;
  readonly revision: number;
  readonly host: string;
  readonly endpoint: string;
  readonly status: string;
}

export function watchCommand(): Command {
  const command = new Command('watch').description(
    'follows the status keys in etcd, as Neutron would see them',
  );
  return addSettingOptions(command, 'etcd')
    .option('--json', 'one JSON object a line', false)
    .option(
      '--from-revision <n>',
      'begin with what happened since that revision, instead of with what is now',
      Number,
    )
    .option('--only-host', "only this host's endpoints (see --host)", false)
    .action(watch);
}

async function watch(
  options: Record<string, unknown> & { json: boolean; fromRevision?: number; onlyHost: boolean },
): Promise<void> {
  const settings = settingsFrom(options, 'etcd');
  const connection = connectionOf(settings.values);
  const print = (line: Line): void => {
    if (options.onlyHost && line.host !== settings.values.host) return;
    console.log(
      options.json
        ? JSON.stringify(line)
        : `${line.time}  ${String(line.revision).padStart(8)}  ${line.host}  ${line.endpoint}  ${line.status}`,
    );
  };
  const stop = new AbortController();
  process.on('SIGINT', () => stop.abort());
  process.on('SIGTERM', () => stop.abort());
  const client = openEtcd(connection);
  try {
    let fromRevision = options.fromRevision ?? 0;
    if (fromRevision === 0) fromRevision = await printCurrent(client, print);
    await Promise.all(prefixes.map((prefix) => follow(connection, prefix, fromRevision, print, stop.signal)));
  } catch (error) {
    throw new CommandError(
      ExitCode.unavailable,
      `etcd at ${connection.endpoints.join(', ')} does not answer: ${String(error)}. Name another one with --etcd`,
      {
        cause: error,
      },
    );
  } finally {
    client.close();
  }
}

/** Returns the revision from which on to watch. */
async function printCurrent(
  client: ReturnType<typeof openEtcd>,
  print: (line: Line) => void,
): Promise<number> {
  let from = Number.POSITIVE_INFINITY;
  for (const prefix of prefixes) {
    const { revision, keys } = await listPrefix(client, prefix);
    from = Math.min(from, revision + 1);
    for (const { key, value, modRevision } of keys) {
      const line = toLine(key, value, modRevision);
      if (line !== null) print({ ...line, time: 'now'.padEnd(24) });
    }
  }
  return from;
}

async function follow(
  connection: ReturnType<typeof connectionOf>,
  prefix: string,
  fromRevision: number,
  print: (line: Line) => void,
  signal: AbortSignal,
): Promise<void> {
  let from = fromRevision;
  while (!signal.aborted) {
    await watchPrefix(connection, prefix, {
      fromRevision: from,
      onEvents: (events) => {
        for (const { key, value, revision } of events) {
          const line = toLine(key, value, revision);
          if (line !== null) print(line);
        }
      },
      onCompacted: (revision) => {
        console.error(`flapd: what happened before revision ${revision} is no longer in etcd's history`);
        from = revision + 1;
      },
      onFailure: ({ message }) => console.error(`flapd: etcd is away: ${message}`),
      signal,
    });
  }
}

function toLine(key: string, value: Buffer | null, revision: number): Line | null {
  const workload = workloadKey.exec(key);
  const host = hostKey.exec(key);
  const [name, endpoint] = workload
    ? [workload[2]!, workload.slice(3).join('/')]
    : host
      ? [host[1]!, host[2]!]
      : [null, null];
  if (name === null || endpoint === null) return null;
  const status = value === null ? 'removed' : parseStatusValue(value);
  return {
    time: new Date().toISOString(),
    revision,
    host: name,
    endpoint,
    status:
      typeof status === 'number'
        ? statusName(status)
        : (status ?? `unreadable: ${JSON.stringify(String(value))}`),
  };
}
