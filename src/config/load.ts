/** Loads the settings: command line, environment, flapd's file, Felix's own settings, defaults, in this order. */
import { fromEnvironment } from './environment.js';
import { fromFelix } from './felix.js';
import type { Layer } from './layer.js';
import { redact } from './redact.js';
import {
  definitions,
  type SettingName,
  type Settings,
  type SettingValues,
  settingNames,
} from './settings.js';
import { fromYaml } from './yaml-file.js';

export interface LoadOptions {
  /** From the command line, by setting name. */
  readonly overrides: ReadonlyMap<SettingName, string>;
  /** Null: what FLAPD_CONFIG names, or the usual file if there is one. */
  readonly configFile: string | null;
  readonly env: NodeJS.ProcessEnv;
  readonly felixFile?: string;
  readonly standardFile?: string;
}

const standardFile = '/etc/flapd/flapd.yaml';
export const standardFelixFile = '/etc/calico/felix.cfg';

/** Everything that is wrong, in one go. */
export class ConfigError extends Error {
  readonly code = 'CONFIG_INVALID';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const many = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
    super(`the configuration has ${many}:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** Throws a ConfigError that lists every problem with its source, its value and what is allowed. */
export function loadSettings(options: LoadOptions): Settings {
  const { overrides, configFile, env } = options;
  const problems: string[] = [];
  const ignored: string[] = [];
  const named = configFile ?? env.FLAPD_CONFIG ?? null;
  const layers: readonly Layer[] = [
    new Map([...overrides].map(([name, value]) => [name, { value, source: 'the command line' }])),
    fromEnvironment(env, problems),
    fromYaml(named ?? options.standardFile ?? standardFile, named === null, problems),
    fromFelix(env, options.felixFile ?? standardFelixFile, problems, (source) => ignored.push(source)),
  ];
  const values: Partial<Record<SettingName, unknown>> = {};
  const sources = new Map<SettingName, string>();
  for (const name of settingNames) {
    const { kind, standard } = definitions[name];
    const found = layers.find((layer) => layer.has(name))?.get(name);
    if (found === undefined) {
      values[name] = deepFreeze(standard());
      continue;
    }
    const parsed = kind.safeParse(found.value);
    if (parsed.success) {
      values[name] = deepFreeze(parsed.data);
      sources.set(name, found.source);
    } else {
      const allowed = parsed.error.issues.map((issue) => issue.message).join('; ');
      problems.push(`${name} from ${found.source}: ${redact(name, found.value)} is not ${allowed}`);
    }
  }
  problems.push(...contradictions(values as Partial<SettingValues>));
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze({ values: Object.freeze(values) as SettingValues, sources, ignored });
}

/** Of values that are each allowed by itself. One that could not be read is undefined. */
function contradictions(values: Partial<SettingValues>): string[] {
  const problems: string[] = [];
  const together = (a: SettingName, b: SettingName): void => {
    const [set, other] = values[a] === null ? [b, a] : [a, b];
    if (values[set] != null && values[other] === null)
      problems.push(`${set} is set without ${other}: they go together`);
  };
  together('etcd.certFile', 'etcd.keyFile');
  together('etcd.user', 'etcd.passwordFile');
  const { 'reporting.interval': interval, 'reporting.ttl': ttl } = values;
  if (interval !== undefined && ttl !== undefined && interval > 0 && ttl <= interval)
    problems.push(
      'reporting.ttl is not above reporting.interval: the agent would be seen as dead between two reports',
    );
  if (values['endpoints.from'] === 'feed' && values['feed.socket'] === null)
    problems.push(
      'endpoints.from is feed, and feed.socket is off: nothing could ever be reported. Set one of them otherwise',
    );
  return problems;
}

function deepFreeze<T>(value: T): T {
  // An expression has to stay as it is: test() would fail to write a frozen lastIndex.
  if (typeof value === 'object' && value !== null && !(value instanceof RegExp)) Object.freeze(value);
  return value;
}
