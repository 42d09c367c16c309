/** `flapd journal`: looks into the journal on disk. All but repair read only, and may be used while flapd runs. */
import { statSync } from 'node:fs';
import { Command } from 'commander';
import { CommandError, ExitCode } from '../daemon/exit.js';
import type { EndpointIndex } from '../endpoints/id.js';
import { sourceName, statusName } from '../endpoints/status.js';
import { RealDirectory } from '../journal/directory.js';
import { ioError } from '../journal/errors.js';
import { lockJournal } from '../journal/lock.js';
import { Committedness, readJournal, type SegmentReport } from '../journal/reader.js';
import { repairJournal } from '../journal/repair.js';
import { settingsFrom } from './options.js';

export interface JournalOptions {
  readonly dir?: string;
  readonly config?: string;
  readonly json: boolean;
}

export function journalCommand(): Command {
  const command = new Command('journal').description('looks into the journal on disk, and repairs it');
  journalOptions(command.command('stat').description('its segments, and how much in it is pending')).action(
    (options: JournalOptions) => stat(options),
  );
  journalOptions(command.command('dump').description('every record, one a line')).action(
    (options: JournalOptions) => dump(options),
  );
  journalOptions(
    command.command('verify').description('reads all of it; exit code 65 where something is damaged'),
  ).action((options: JournalOptions) => verify(options));
  journalOptions(
    command
      .command('repair')
      .description('puts damaged segments aside and keeps all that is good; flapd must not be running'),
  ).action((options: JournalOptions) => repair(options));
  return command;
}

export function journalOptions(command: Command): Command {
  return command
    .option('--dir <dir>', "the journal's directory, instead of the setting journal.dir")
    .option('--config <file>', 'settings, instead of /etc/flapd/flapd.yaml')
    .option('--json', 'as JSON', false);
}

/** Throws a CommandError where there is no journal. */
export function journalDirectory({ dir, config }: JournalOptions): RealDirectory {
  const path =
    dir ??
    settingsFrom({ ...(config === undefined ? {} : { config }), set: [] }, 'run').values['journal.dir'];
  if (path === null)
    throw new CommandError(ExitCode.usage, 'journal.dir is none: there is no journal to look into');
  try {
    if (statSync(path).isDirectory()) return new RealDirectory(path);
  } catch (error) {
    throw new CommandError(ExitCode.io, `${ioError(error, path).message} (--dir DIR)`, { cause: error });
  }
  throw new CommandError(ExitCode.io, `${path} is no directory: name the journal's with --dir DIR`);
}

function stat(options: JournalOptions): void {
  const directory = journalDirectory(options);
  const names = new Map<EndpointIndex, string>();
  const committed = new Committedness();
  const reports = readJournal(directory, {
    ...committed.handler,
    name: (endpoint, key) => {
      names.set(endpoint, key);
    },
  });
  let pending = 0;
  let oldestPendingUs = Number.POSITIVE_INFINITY;
  readJournal(directory, {
    transition: (seq, endpoint, _status, _source, observedAtUs) => {
      if (committed.has(endpoint, seq)) return;
      pending++;
      oldestPendingUs = Math.min(oldestPendingUs, observedAtUs);
    },
  });
  const sum = (pick: (report: SegmentReport) => number): number =>
    reports.reduce((total, one) => total + pick(one), 0);
  const figures = {
    directory: directory.path,
    segments: reports,
    bytes: sum(({ bytes }) => bytes),
    transitions: sum(({ transitions }) => transitions),
    pending,
    oldestPending: pending === 0 ? null : timeOf(oldestPendingUs),
    endpoints: names.size,
  };
  if (options.json) {
    console.log(JSON.stringify(figures));
    return;
  }
  for (const report of reports) console.log(segmentLine(report));
  console.log(
    `${figures.bytes} bytes, ${figures.transitions} transitions of ${names.size} endpoints; ` +
      (pending === 0 ? 'none pending' : `${pending} pending, the oldest since ${figures.oldestPending}`),
  );
}

function dump(options: JournalOptions): void {
  const names = new Map<EndpointIndex, string>();
  const print = (record: { readonly kind: string } & Record<string, unknown>): void => {
    if (options.json) {
      console.log(JSON.stringify(record));
    } else {
      const { kind, ...fields } = record;
      console.log([kind, ...Object.entries(fields).map(([name, value]) => `${name}=${value}`)].join(' '));
    }
  };
  const reports = readJournal(journalDirectory(options), {
    name: (endpoint, key) => {
      names.set(endpoint, key);
      print({ kind: 'name', endpoint, key });
    },
    transition: (seq, endpoint, status, source, observedAtUs, initial) =>
      print({
        kind: 'transition',
        seq,
        key: names.get(endpoint) ?? `(number ${endpoint})`,
        status: statusName(status),
        source: sourceName(source),
        observed: timeOf(observedAtUs),
        initial,
      }),
    committed: (lane, cursor, revision, atUs, endpoints, seqs) =>
      print({
        kind: revision === 0 ? 'cursor' : 'committed',
        lane,
        revision,
        at: atUs === 0 ? null : timeOf(atUs),
        seqs: endpoints.map((_, i) => (Number.isNaN(seqs[i]) ? 'confirming' : String(seqs[i]))).join(','),
        cursor: Buffer.from(cursor).toString('hex'),
      }),
    counters: (counters) => print({ kind: 'counters', ...counters }),
    status: (endpoint, status) =>
      print({ kind: 'status', key: names.get(endpoint), status: statusName(status) }),
    lastSeq: (seq) => print({ kind: 'lastSeq', seq }),
    settled: (seq) => print({ kind: 'settled', below: seq }),
  });
  for (const report of reports) if (report.state !== 'good') console.error(segmentLine(report));
}

function verify(options: JournalOptions): void {
  const directory = journalDirectory(options);
  const segments = readJournal(directory, {});
  const bad = segments.filter(({ state }) => state !== 'good' && state !== 'torn');
  if (options.json)
    console.log(JSON.stringify({ directory: directory.path, good: bad.length === 0, segments }));
  else for (const report of segments) console.log(segmentLine(report));
  if (bad.length === 0) return;
  process.exitCode = ExitCode.journalDamaged;
  if (!options.json)
    console.error(`damaged; to save what is good: flapd journal repair --dir ${directory.path}`);
}

async function repair(options: JournalOptions): Promise<void> {
  const directory = journalDirectory(options);
  const unlock = lockJournal(directory.path);
  try {
    const result = await repairJournal(directory, new Date().toISOString().replace(/[:.]/g, ''));
    if (options.json) {
      console.log(JSON.stringify({ directory: directory.path, ...result }));
      return;
    }
    for (const { from, to } of result.aside) console.log(`${from} was damaged; as it was it is now ${to}`);
    for (const name of result.missing) console.log(`${name} was missing`);
    for (const { from, to } of result.gaps) console.log(`transitions ${from} to ${to} are missing`);
    if (result.nameless > 0)
      console.log(`${result.nameless} transitions are left out: whose they are is lost`);
    const touched = result.aside.length + result.missing.length;
    console.log(
      touched === 0
        ? 'nothing is damaged: nothing was changed'
        : `${result.transitions} transitions are kept. Start flapd: its resync puts right what etcd has of the missing ones`,
    );
  } catch (error) {
    throw ioError(error, directory.path);
  } finally {
    unlock();
  }
}

function segmentLine({ file, bytes, transitions, firstSeq, lastSeq, state, badAt }: SegmentReport): string {
  const seqs = transitions === 0 ? 'no transitions' : `${transitions} transitions, ${firstSeq} to ${lastSeq}`;
  switch (state) {
    case 'good':
      return `${file}  ${bytes} bytes, ${seqs}`;
    case 'torn':
      return `${file}  ${bytes} bytes, ${seqs}; a torn tail from byte ${badAt}, which the next start cuts`;
    case 'damaged':
      return `${file}  ${bytes} bytes, ${seqs}; DAMAGED at byte ${badAt}`;
    case 'newer':
      return `${file}  ${bytes} bytes; written by a newer flapd`;
    case 'missing':
      return `${file}  MISSING`;
  }
}

/** RFC 3339, to the microsecond. */
export function timeOf(us: number): string {
  const milliseconds = Math.floor(us / 1000);
  const rest = String(Math.floor(us - milliseconds * 1000)).padStart(3, '0');
  return new Date(milliseconds).toISOString().replace('Z', `${rest}Z`);
}
