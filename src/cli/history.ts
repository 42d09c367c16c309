/** `flapd history ENDPOINT`: what the journal still knows of an endpoint. It may be used while flapd runs. */
import { Command, InvalidArgumentError } from 'commander';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { sourceName, statusName } from '../endpoints/status.js';
import { type HistoryEntry, historyOf } from '../journal/reader.js';
import { type JournalOptions, journalDirectory, journalOptions, timeOf } from './journal.js';

const limitMax = 1_000_000;

export function historyCommand(): Command {
  return journalOptions(
    new Command('history')
      .description("an endpoint's last transitions, with times, sources and etcd's revisions")
      .argument('<endpoint>', 'its status key, or its workload (a VM) or endpoint (a port, an interface)')
      .option('--limit <n>', 'so many at most', limitOf, 100),
  )
    .addHelpText('after', '\nA transition without a revision is pending: etcd does not have it yet.')
    .action((endpoint: string, options: JournalOptions & { limit: number }) => history(endpoint, options));
}

function history(endpoint: string, options: JournalOptions & { limit: number }): void {
  const entries = historyOf(journalDirectory(options), (key) => isOf(key, endpoint), options.limit);
  if (options.json) {
    console.log(JSON.stringify(entries.map(asJson)));
    return;
  }
  if (entries.length === 0) {
    throw new CommandError(
      ExitCode.failed,
      `the journal has no transition of ${endpoint}: what was committed long ago is deleted (journal.retain)`,
    );
  }
  const several = new Set(entries.map(({ key }) => key)).size > 1;
  if (!several) console.log(entries[0]!.key);
  console.log(
    `${'observed'.padEnd(29)}${'source'.padEnd(11)}${'status'.padEnd(9)}${'seq'.padStart(12)}  revision`,
  );
  for (const entry of entries) console.log(line(entry) + (several ? `  ${entry.key}` : ''));
}

function line(entry: HistoryEntry): string {
  return (
    timeOf(entry.observedAtUs).padEnd(29) +
    sourceName(entry.source).padEnd(11) +
    statusName(entry.status).padEnd(9) +
    String(entry.seq).padStart(12) +
    `  ${revisionOf(entry)}`
  );
}

/** Committed without a revision: a crash came before the journal heard of it, and etcd's cursor said so later. */
function revisionOf({ revision, pending }: HistoryEntry): string {
  return revision !== null ? String(revision) : pending ? 'pending' : 'committed';
}

function asJson(entry: HistoryEntry): object {
  return {
    seq: entry.seq,
    key: entry.key,
    status: statusName(entry.status),
    source: sourceName(entry.source),
    observed: timeOf(entry.observedAtUs),
    revision: entry.revision,
    pending: entry.pending,
  };
}

/** The key itself, or its workload or endpoint as people write it: unescaped, a workload with or without namespace. */
function isOf(key: string, wanted: string): boolean {
  if (key === wanted) return true;
  const parts = key.split('/');
  const names = [parts.at(-1)!, ...(parts.includes('workload') ? [parts.at(-3)!] : [])].map(unescaped);
  return names.some((name) => name === wanted || name.endsWith(`/${wanted}`));
}

function unescaped(part: string): string {
  return part.replace(/%2f/gi, '/').replace(/%25/g, '%');
}

function limitOf(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > limitMax)
    throw new InvalidArgumentError(`it must be a whole number from 1 to ${limitMax}.`);
  return value;
}
