import { Command, InvalidArgumentError, Option } from 'commander';
import type { SettingName } from '../config/settings.js';
import { connectionOf } from '../daemon/connection.js';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { inOwnNamespace, runInOwnNamespace } from '../storm/drive/namespace.js';
import type { StormEvent, StormListener, StormOptions } from '../storm/options.js';
import { chaosFlapdKills } from '../storm/plan/faults.js';
import { describe, passed } from '../storm/report.js';
import { runStorm } from '../storm/storm.js';
import { addSettingOptions, seconds, settingsFrom } from './options.js';

interface Options {
  readonly via: 'feed' | 'netlink';
  readonly endpoints: number;
  readonly transitions: number;
  readonly seed: number;
  readonly flapRate: number;
  readonly hot?: number;
  readonly removals?: number;
  readonly production: boolean;
  readonly chaos: boolean;
  readonly kills?: number;
  readonly etcd?: string;
  /** True: in a temporary directory. */
  readonly etcdEmbedded?: string | true;
  readonly keep: boolean;
  readonly set: [SettingName, string][];
  readonly patience: number;
  readonly etcdKillAt?: number;
  readonly etcdStopAt?: number;
  readonly etcdStopFor: number;
  readonly json: boolean;
  readonly events: boolean;
}

const removalsStandard = 0.02;

/** 128 + SIGINT, as shells have it. */
const interruptedCode = 130;

/** What the storm shares with the other commands. It has a host name of its own, and no region. */
const sharedOptions = ['--config', '--etcd', '--set'];

export function stormCommand(): Command {
  const command = new Command('storm').description(
    'makes a storm of flaps, and verifies in the history of etcd that each transition has arrived: once, in order',
  );
  command
    .addOption(
      new Option(
        '--via <way>',
        'feed: the Unix socket; netlink: real interfaces, in a network namespace (as root)',
      )
        .choices(['feed', 'netlink'])
        .default('feed'),
    )
    .option('--endpoints <n>', 'how many endpoints flap', whole(1, 1_000_000), 100)
    .option('--transitions <n>', 'how many transitions etcd is to get', whole(1, 100_000_000), 10_000)
    .option('--seed <n>', 'the same seed makes the same storm', whole(0, 2 ** 32 - 1), 1)
    .option('--flap-rate <n>', 'transitions a second; 0: as fast as it goes', whole(0, 10_000_000), 0)
    .option('--hot <share>', 'let one endpoint take this share of all transitions, such as 0.5', share)
    .option(
      '--removals <share>',
      `how often an endpoint is removed instead of flapping; 0: never (default: ${removalsStandard})`,
      shareOrNone,
    )
    .option('--production', 'with all limits and spacing as they are by default, and check those too', false)
    .option(
      '--etcd-embedded [dir]',
      'start an etcd for the storm, in a temporary directory unless told otherwise',
    );
  for (const option of addSettingOptions(new Command(), 'etcd').options)
    if (option.long !== undefined && sharedOptions.includes(option.long ?? '')) command.addOption(option);
  return command
    .addOption(
      new Option('--patience <seconds>', 'give up when nothing has moved for so long')
        .argParser(seconds)
        .default(60_000, '60'),
    )
    .option('--keep', "leave the storm's keys in etcd", false)
    .option('--json', 'print the outcome as one JSON object', false)
    .option('--events', 'say on stderr what goes on, as JSON lines', false)
    .optionsGroup('Faults (those of etcd take --etcd-embedded):')
    .option('--chaos', 'kill flapd ten times at least, and etcd three times at least', false)
    .option('--kills <n>', '... flapd so many times at least', whole(1, 10_000))
    .option(
      '--etcd-kill-at <share>',
      'kill etcd when flapd has taken this share of the storm, and start it again',
      share,
    )
    .option('--etcd-stop-at <share>', 'stop etcd (SIGSTOP) at this share', share)
    .addOption(
      new Option('--etcd-stop-for <seconds>', '... for so long').argParser(seconds).default(5_000, '5'),
    )
    .addHelpText(
      'after',
      `
Everything runs under a host name of the storm's own, which nobody else's keys have; they are removed at the end.
Without --production flapd runs with limits, spacing, confirming writes and the batch limit off: as fast as it can.
Exit codes: 0 all is in etcd, once, in order; 1 it is not; 64 usage; 69 etcd unreachable; 71 the storm could not begin;
77 not allowed; 130 interrupted.`,
    )
    .action(storm);
}

async function storm(options: Options): Promise<void> {
  const stormOptions = check(options);
  if (options.via === 'netlink' && !inOwnNamespace()) {
    process.exitCode = await inNamespace();
    return;
  }
  const interrupt = new AbortController();
  // A second one is for those who cannot wait; children are killed on the way out.
  const onSignal = (): void => {
    if (interrupt.signal.aborted) process.exit(interruptedCode);
    interrupt.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  const progress = await openProgress(options.transitions);
  try {
    const report = await runStorm(stormOptions, listener(options.events, progress), interrupt.signal);
    progress?.stop();
    console.log(options.json ? JSON.stringify(report) : describe(report));
    process.exitCode = report.interrupted ? interruptedCode : passed(report) ? ExitCode.ok : ExitCode.failed;
  } catch (error) {
    progress?.stop();
    if (interrupt.signal.aborted) {
      process.exitCode = interruptedCode;
      return;
    }
    throw asCommandError(error);
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

/** Throws a CommandError for options that contradict one another. */
function check(options: Options): StormOptions {
  const { etcd, etcdEmbedded, via, chaos, etcdKillAt, etcdStopAt } = options;
  const usage = (message: string): CommandError => new CommandError(ExitCode.usage, message);
  if (etcd !== undefined && etcdEmbedded !== undefined)
    throw usage('--etcd and --etcd-embedded: choose one of them');
  if (etcd === undefined && etcdEmbedded === undefined)
    throw usage('where is etcd? Name it with --etcd URLS, or have one started with --etcd-embedded');
  if (etcd !== undefined && via === 'netlink')
    throw usage(
      '--via netlink runs in a network namespace of its own, from which no other etcd can be reached: use --etcd-embedded',
    );
  if (etcd !== undefined && (chaos || etcdKillAt !== undefined || etcdStopAt !== undefined))
    throw usage("only an etcd of the storm's own is killed or stopped: use --etcd-embedded");
  if (options.kills !== undefined && !chaos)
    throw usage('--kills says how often --chaos kills flapd: add --chaos');
  // The carrier counters tell flapd afterwards what an interface did while it was killed, but not of one that is gone.
  const noRemovals = via === 'netlink' && chaos;
  if (noRemovals && (options.removals ?? 0) > 0)
    throw usage(
      '--via netlink --chaos: an interface that is deleted and made again while flapd is killed leaves no trace, so use --removals 0',
    );
  const settings = settingsFrom({ ...options }, 'etcd');
  return {
    via,
    endpoints: options.endpoints,
    transitions: options.transitions,
    seed: options.seed,
    flapRate: options.flapRate,
    hot: options.hot ?? null,
    removals: options.removals ?? (noRemovals ? 0 : removalsStandard),
    production: options.production,
    chaos,
    flapdKills: options.kills ?? chaosFlapdKills,
    etcd:
      etcdEmbedded === undefined
        ? { kind: 'urls', connection: connectionOf(settings.values) }
        : { kind: 'embedded', dir: etcdEmbedded === true ? null : etcdEmbedded },
    keep: options.keep,
    settings: new Map(options.set),
    patienceMs: options.patience,
    etcdKillAt: etcdKillAt ?? null,
    etcdStopAt: etcdStopAt ?? null,
    etcdStopForMs: options.etcdStopFor,
  };
}

async function inNamespace(): Promise<number> {
  try {
    return await runInOwnNamespace();
  } catch (error) {
    throw asCommandError(error);
  }
}

const exitCodes: Readonly<Record<string, ExitCode>> = {
  NAMESPACE_DENIED: ExitCode.denied,
  NAMESPACE_FAILED: ExitCode.system,
  IP_COMMAND: ExitCode.system,
  STORM: ExitCode.system,
  STORM_FEED: ExitCode.system,
  STORM_GATEWAY: ExitCode.system,
  STORM_SUBJECT: ExitCode.system,
  STORM_ETCD: ExitCode.unavailable,
};

/** Anything else is main's to judge. */
function asCommandError(error: unknown): unknown {
  const code = (error as { code?: unknown }).code;
  const exitCode = typeof code === 'string' ? exitCodes[code] : undefined;
  if (exitCode === undefined || !(error instanceof Error)) return error;
  return new CommandError(exitCode, error.message, { cause: error });
}

interface Progress {
  update(committed: number): void;
  stop(): void;
}

/** Null where nobody looks. */
async function openProgress(transitions: number): Promise<Progress | null> {
  if (!process.stderr.isTTY) return null;
  const { default: cliProgress } = await import('cli-progress');
  const bar = new cliProgress.SingleBar({
    format: '{bar} {percentage}% | {value}/{total} in etcd | {duration_formatted}',
    stream: process.stderr,
    clearOnComplete: true,
    hideCursor: true,
  });
  bar.start(transitions, 0);
  return bar;
}

function listener(events: boolean, progress: Progress | null): StormListener {
  return (event: StormEvent) => {
    if (events) process.stderr.write(`${JSON.stringify(event)}\n`);
    else if (event.event === 'progress') progress?.update(event.committed);
  };
}

function whole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min && value <= max))
      throw new InvalidArgumentError(`it must be a whole number from ${min} to ${max}.`);
    return value;
  };
}

function share(text: string): number {
  const value = Number(text);
  if (!(value > 0 && value < 1)) throw new InvalidArgumentError('it must be between 0 and 1, such as 0.5.');
  return value;
}

function shareOrNone(text: string): number {
  return text === '0' ? 0 : share(text);
}
