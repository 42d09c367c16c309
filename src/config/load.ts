/** Loads the settings: command line, environment, flapd's file, Felix's own settings, defaults, in this order. */
import { readFileSync } from 'node:fs';
import { parse as parseIni } from 'ini';
import { parseDocument } from 'yaml';
import { excludesToRegex, type FelixMapping, findFelixName, prefixesToRegex } from './felix.js';
import { redact } from './redact.js';
import {
  definitions,
  isSettingName,
  type SettingName,
  type Settings,
  type SettingValues,
  settingNames,
} from './settings.js';

export interface LoadOptions {
  /** From the command line, by setting name. */
  readonly overrides: ReadonlyMap<SettingName, string>;
  /** Null: the usual file, if there is one. */
  readonly configFile: string | null;
  readonly env: NodeJS.ProcessEnv;
  readonly felixFile?: string;
  readonly standardFile?: string;
}

const standardFile = '/etc/flapd/flapd.yaml';
const felixFile = '/etc/calico/felix.cfg';

/** Everything that is wrong, in one go. */
export class ConfigError extends Error {
  readonly code = 'CONFIG_INVALID';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(
      `the configuration has ${problems.length} problem${problems.length === 1 ? '' : 's'}:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`,
    );
    this.problems = problems;
  }
}

interface Found {
  readonly value: unknown;
  readonly source: string;
}

type Layer = Map<SettingName, Found>;

/** Throws a ConfigError that lists every problem with its source, its value and what is allowed. `ignored` gets what is Felix's and means nothing here. */
export function loadSettings(
  options: LoadOptions,
  ignored: (what: string) => void = () => undefined,
): Settings {
  const problems: string[] = [];
  const layers: Layer[] = [
    new Map([...options.overrides].map(([name, value]) => [name, { value, source: 'the command line' }])),
    fromEnvironment(options.env, problems),
    fromYaml(options, problems),
    felixLayer(felixVariables(options.env), problems, ignored),
    felixLayer(felixSettings(options.felixFile ?? felixFile, problems), problems, ignored),
  ];
  const values: Partial<Record<SettingName, unknown>> = {};
  const sources = new Map<SettingName, string>();
  for (const name of settingNames) {
    const found = layers.find((layer) => layer.has(name))?.get(name);
    if (found === undefined) {
      values[name] = definitions[name].standard();
      continue;
    }
    const parsed = definitions[name].kind.safeParse(found.value);
    if (parsed.success) {
      values[name] = parsed.data;
      sources.set(name, found.source);
    } else {
      const allowed = parsed.error.issues.map((issue) => issue.message).join('; ');
      problems.push(`${name} from ${found.source}: ${redact(name, found.value)} is not ${allowed}`);
    }
  }
  problems.push(...contradictions(values as SettingValues));
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze({ values: Object.freeze(values) as SettingValues, sources });
}

/** FLAPD_LIMITS_TXNS_PER_SECOND for limits.txnsPerSecond. */
export function variableName(name: SettingName): string {
  return `FLAPD_${name
    .replaceAll('.', '_')
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toUpperCase()}`;
}

/** Variables that flapd and its scripts use for something else. */
const otherVariables = new Set([
  'FLAPD_ETCD',
  'FLAPD_ETCD_34',
  'FLAPD_ETCD_35',
  'FLAPD_CACHE',
  'FLAPD_FAULTS',
  'FLAPD_CONFIG',
]);

function fromEnvironment(env: NodeJS.ProcessEnv, problems: string[]): Layer {
  const names = new Map(settingNames.map((name) => [variableName(name), name]));
  const layer: Layer = new Map();
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith('FLAPD_') || value === undefined || otherVariables.has(variable)) continue;
    const name = names.get(variable);
    if (name === undefined)
      problems.push(`${variable} in the environment is no setting${didYouMean(variable, [...names.keys()])}`);
    else layer.set(name, { value, source: `${variable} in the environment` });
  }
  return layer;
}

function fromYaml(options: LoadOptions, problems: string[]): Layer {
  const file = options.configFile ?? options.env.FLAPD_CONFIG ?? null;
  const path = file ?? options.standardFile ?? standardFile;
  const layer: Layer = new Map();
  const content = readOptional(path, file !== null, problems);
  if (content === null) return layer;
  const document = parseDocument(content);
  for (const error of document.errors) problems.push(`${path}: ${error.message.split('\n')[0]}`);
  if (document.errors.length > 0) return layer;
  flatten(document.toJS({ mapAsMap: true }), '', path, layer, problems);
  return layer;
}

function flatten(node: unknown, prefix: string, path: string, layer: Layer, problems: string[]): void {
  if (node === null && prefix === '') return;
  if (isSettingName(prefix)) {
    layer.set(prefix, { value: node, source: path });
  } else if (node instanceof Map) {
    for (const [key, value] of node)
      flatten(value, prefix === '' ? String(key) : `${prefix}.${key}`, path, layer, problems);
  } else {
    problems.push(
      `${prefix === '' ? 'the content' : prefix} in ${path} is no setting${didYouMean(prefix, settingNames)}`,
    );
  }
}

function felixVariables(env: NodeJS.ProcessEnv): [string, string, string][] {
  return Object.entries(env)
    .filter(([variable, value]) => variable.toUpperCase().startsWith('FELIX_') && value !== undefined)
    .map(([variable, value]) => [variable.slice('FELIX_'.length), value!, `${variable} in the environment`]);
}

function felixSettings(path: string, problems: string[]): [string, string, string][] {
  const content = readOptional(path, false, problems);
  if (content === null) return [];
  const settings: [string, string, string][] = [];
  const walk = (node: object): void => {
    for (const [key, value] of Object.entries(node)) {
      if (typeof value === 'object' && value !== null) walk(value);
      else settings.push([key, String(value), `${key} in ${path}`]);
    }
  };
  walk(parseIni(content));
  return settings;
}

function felixLayer(
  settings: readonly [string, string, string][],
  problems: string[],
  ignored: (what: string) => void,
): Layer {
  const layer: Layer = new Map();
  let address: Found | null = null;
  let scheme = 'http';
  for (const [name, value, source] of settings) {
    const known = findFelixName(name);
    if (known === undefined) {
      ignored(source);
      continue;
    }
    if (value === '') continue;
    if (known.mapping.kind === 'etcdAddr') address = { value, source };
    else if (known.mapping.kind === 'etcdScheme') scheme = value;
    else addFelix(known.mapping, value, source, layer, problems);
  }
  if (address !== null && !layer.has('etcd.endpoints')) {
    layer.set('etcd.endpoints', { value: `${scheme}://${address.value}`, source: address.source });
  }
  return layer;
}

function addFelix(
  mapping: FelixMapping,
  value: string,
  source: string,
  layer: Layer,
  problems: string[],
): void {
  switch (mapping.kind) {
    case 'setting':
      layer.set(mapping.name, { value, source });
      return;
    case 'datastoreType':
      if (value.toLowerCase() !== 'etcdv3') {
        problems.push(
          `${source}: ${value} is not etcdv3, the only datastore in which Neutron looks for statuses`,
        );
      }
      return;
    case 'interfacePrefix':
      layer.set('endpoints.interfaces', { value: prefixesToRegex(value), source });
      return;
    case 'interfaceExclude':
      layer.set('endpoints.interfaceExclude', { value: excludesToRegex(value), source });
      return;
    case 'region':
      layer.set('region', { value: value.toLowerCase() === 'none' ? null : value, source });
      return;
    default: // taken together by the caller
  }
}

function contradictions(values: Partial<SettingValues>): string[] {
  const problems: string[] = [];
  const both = (a: SettingName, b: SettingName): void => {
    if (values[a] != null && values[b] == null) problems.push(`${a} is set without ${b}: they go together`);
  };
  both('etcd.certFile', 'etcd.keyFile');
  both('etcd.keyFile', 'etcd.certFile');
  both('etcd.user', 'etcd.passwordFile');
  both('etcd.passwordFile', 'etcd.user');
  const { 'reporting.interval': interval, 'reporting.ttl': ttl } = values;
  if (interval !== undefined && ttl !== undefined && interval > 0 && ttl <= interval) {
    problems.push(
      'reporting.ttl is not above reporting.interval: the agent would be seen as dead between two reports',
    );
  }
  return problems;
}

function readOptional(path: string, required: boolean, problems: string[]): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && !required) return null;
    problems.push(`cannot read ${path}: ${message}`);
    return null;
  }
}

function didYouMean(name: string, names: readonly string[]): string {
  const close = names
    .map((other) => ({ other, distance: distance(name.toLowerCase(), other.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance)[0];
  return close !== undefined && close.distance <= Math.max(2, name.length / 3)
    ? `; did you mean ${close.other}?`
    : '';
}

/** Levenshtein's. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
