import { Command, InvalidArgumentError } from 'commander';
import { connectionOf } from '../daemon/connection.js';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { openEtcd } from '../etcd/client.js';
import type { EtcdConnection } from '../etcd/connection.js';
import { listPrefix } from '../etcd/list.js';
import { watchPrefix } from '../etcd/watch.js';
import { Episodes } from '../telemetry/episode.js';
import { addSettingOptions, settingsFrom } from './options.js';
import { formatLine, type StatusLine, statusLine, statusPrefixes } from './status-line.js';

interface Options extends Record<string, unknown> {
  readonly json: boolean;
  readonly fromRevision?: number;
  readonly initial: boolean;
  readonly onlyHost: boolean;
}

export function watchCommand(): Command {
  const command = new Command('watch').description(
    'follows the status keys in etcd, as Neutron would see them',
  );
  return addSettingOptions(command, 'etcd')
    .option('--json', 'one JSON object a line', false)
    .option('--from-revision <n>', 'begin with what has happened since that revision of etcd', revision)
    .option('--no-initial', 'do not begin with what is there now')
    .option('--only-host', "only this host's endpoints (see --host)", false)
    .addHelpText(
      'after',
      `
Each line has the time, the revision in etcd, the host, the endpoint as in its key, and its status: up, down, error,
removed, or unreadable. It goes on while etcd is away, and ends with Ctrl-C.
Exit codes: 0 fine, 64 usage, 69 etcd unreachable at the start, 78 configuration.`,
    )
    .action(watch);
}

async function watch(options: Options): Promise<void> {
  const { values } = settingsFrom(options, 'etcd');
  const connection = connectionOf(values);
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  process.once('SIGTERM', () => stop.abort());
  const print = (line: StatusLine | null): void => {
    if (line === null || (options.onlyHost && line.host !== values.host)) return;
    console.log(options.json ? JSON.stringify(line) : formatLine(line));
  };
  const from = options.fromRevision ?? (await readCurrent(connection, options.initial ? print : () => {}));
  const watcher = new Watcher(connection, print, stop.signal);
  await Promise.all(statusPrefixes.map((prefix) => watcher.follow(prefix, from)));
}

/** Hands over what is there; returns the revision from which on to watch, so that nothing falls between. */
async function readCurrent(
  connection: EtcdConnection,
  print: (line: StatusLine | null) => void,
): Promise<number> {
  const client = openEtcd(connection);
  try {
    let from = Number.POSITIVE_INFINITY;
    for (const prefix of statusPrefixes) {
      const { revision, keys } = await listPrefix(client, prefix);
      from = Math.min(from, revision + 1);
      const time = new Date().toISOString();
      // What has changed since the first list is the watch's to tell.
      for (const { key, value, modRevision } of keys)
        if (modRevision < from) print(statusLine(key, value, { time, revision: modRevision, initial: true }));
    }
    return from;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CommandError(
      ExitCode.unavailable,
      `cannot read from etcd at ${connection.endpoints.join(', ')}: ${why}. Name another one with --etcd`,
      { cause: error },
    );
  } finally {
    client.close();
  }
}

class Watcher {
  readonly #connection: EtcdConnection;
  readonly #print: (line: StatusLine | null) => void;
  readonly #signal: AbortSignal;
  readonly #episodes = new Episodes();

  constructor(connection: EtcdConnection, print: (line: StatusLine | null) => void, signal: AbortSignal) {
    this.#connection = connection;
    this.#print = print;
    this.#signal = signal;
  }

  /** Until the signal. What has been compacted away meanwhile is told of as a gap. */
  async follow(prefix: string, fromRevision: number): Promise<void> {
    let from = fromRevision;
    while (!this.#signal.aborted) {
      await watchPrefix(this.#connection, prefix, {
        fromRevision: from,
        onEvents: (events) => {
          const time = new Date().toISOString();
          for (const { key, value, revision } of events)
            this.#print(statusLine(key, value, { time, revision, initial: false }));
        },
        onCompacted: (revision) => {
          console.error(
            `flapd: what happened up to revision ${revision} is no longer in etcd's history (or etcd was set back to it); going on from there`,
          );
          from = revision + 1;
        },
        onConnected: () => {
          const away = this.#episodes.over('away', performance.now());
          if (away !== null)
            console.error(`flapd: etcd is back after ${(away.lastedMs / 1000).toFixed(1)} s`);
        },
        onFailure: ({ message }) => {
          if (this.#episodes.happened('away', performance.now()))
            console.error(`flapd: etcd is away (${message}); trying again`);
        },
        signal: this.#signal,
      });
    }
  }
}

function revision(text: string): number {
  const value = /^\d+$/.test(text) ? Number(text) : 0;
  if (!Number.isSafeInteger(value) || value < 1)
    throw new InvalidArgumentError('it must be a revision of etcd: a whole number above 0.');
  return value;
}
