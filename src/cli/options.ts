/** Options that commands share, each of them a setting with another spelling. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { ConfigError, loadSettings, standardFelixFile } from '../config/load.js';
import { isSettingName, type SettingName, type Settings, settingNames } from '../config/settings.js';
import { didYouMean } from '../config/suggest.js';
import { CommandError, ExitCode } from '../daemon/exit.js';

interface Shared {
  readonly flags: string;
  readonly setting: SettingName;
  readonly about: string;
}

const etcdOptions: readonly Shared[] = [
  { flags: '--etcd <urls>', setting: 'etcd.endpoints', about: 'where etcd is, separated by commas' },
  { flags: '--host <name>', setting: 'host', about: 'name of this host in the keys' },
  { flags: '--region <name>', setting: 'region', about: 'OpenStack region' },
];

const runOptions: readonly Shared[] = [
  {
    flags: '--etcd-embedded <dir>',
    setting: 'etcd.embeddedDir',
    about: 'start an etcd of its own that keeps its data there',
  },
  { flags: '--etcd-embedded-port <port>', setting: 'etcd.embeddedPort', about: 'its port; 0: any free one' },
  { flags: '--endpoints-from <source>', setting: 'endpoints.from', about: 'calico, interfaces or feed' },
  { flags: '--interfaces <regex>', setting: 'endpoints.interfaces', about: 'interfaces that are endpoints' },
  {
    flags: '--feed-socket <path>',
    setting: 'feed.socket',
    about: 'Unix socket for dataplanes; off for none',
  },
  { flags: '--http <address>', setting: 'http', about: 'HOST:PORT of metrics and health; off for none' },
  {
    flags: '--journal <dir>',
    setting: 'journal.dir',
    about: 'directory of the journal; memory for none: what is pending is lost when flapd dies',
  },
  { flags: '--lanes <n>', setting: 'lanes', about: 'transactions under way at a time' },
  { flags: '--workers <n>', setting: 'workers', about: 'worker threads; 0: as many as suit the machine' },
];

const logOptions: readonly Shared[] = [
  { flags: '--log-level <level>', setting: 'log.level', about: 'trace, debug, info, warn or error' },
];

/** Adds the options; settingsFrom() reads them. */
export function addSettingOptions(command: Command, group: 'etcd' | 'run'): Command {
  command
    .option('--config <file>', 'settings, instead of /etc/flapd/flapd.yaml')
    .option('--felix-config <file>', `Felix's settings, instead of ${standardFelixFile}`);
  for (const { flags, about } of sharedOptions(group)) command.option(flags, about);
  return command.addOption(
    new Option('--set <name=value>', 'any other setting, as often as needed')
      .argParser(collect)
      .default([], 'none'),
  );
}

/** Throws a CommandError that lists every problem. */
export function settingsFrom(options: Record<string, unknown>, group: 'etcd' | 'run'): Settings {
  const overrides = new Map<SettingName, string>();
  for (const { flags, setting } of sharedOptions(group)) {
    const value = options[camelCase(flags)];
    if (typeof value !== 'string') continue;
    overrides.set(setting, setting === 'journal.dir' && value === 'memory' ? 'none' : value);
  }
  for (const [name, value] of options.set as [SettingName, string][]) overrides.set(name, value);
  try {
    return loadSettings({
      overrides,
      configFile: typeof options.config === 'string' ? options.config : null,
      felixFile: felixFileFrom(options),
      env: process.env,
    });
  } catch (error) {
    if (error instanceof ConfigError)
      throw new CommandError(ExitCode.config, error.message, { cause: error });
    throw error;
  }
}

/** Where Felix's settings are looked for. */
export function felixFileFrom(options: Record<string, unknown>): string {
  return typeof options.felixConfig === 'string' ? options.felixConfig : standardFelixFile;
}

function sharedOptions(group: 'etcd' | 'run'): readonly Shared[] {
  return group === 'etcd' ? etcdOptions : [...etcdOptions, ...runOptions, ...logOptions];
}

function camelCase(flags: string): string {
  return flags
    .split(' ')[0]!
    .slice(2)
    .replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function collect(text: string, before: [SettingName, string][]): [SettingName, string][] {
  const at = text.indexOf('=');
  const name = text.slice(0, at);
  if (at < 1) throw new InvalidArgumentError('it must read name=value, such as limits.txnsPerSecond=100.');
  if (!isSettingName(name))
    throw new InvalidArgumentError(`there is no setting ${name}${didYouMean(name, settingNames)}`);
  return [...before, [name, text.slice(at + 1)]];
}

/** A number of seconds, as an option's value; in milliseconds. */
export function seconds(text: string): number {
  const value = Number(text);
  if (!(value > 0) || value > 86_400 * 365)
    throw new InvalidArgumentError('it must be a number of seconds above 0.');
  return value * 1000;
}
