/**
 * Felix's own settings, so that a compute node's felix.cfg and FELIX_ variables just work. As in Calico's
 * felix/config/config_params.go: names have no case, an empty value is none, the environment wins over the file name by
 * name, the value `none` sets a setting to nothing (which for a time is 0), and unknown names are ignored.
 */
import { parse as parseIni } from 'ini';
import { type Found, type Layer, readConfigFile } from './layer.js';
import { redact } from './redact.js';
import type { SettingName } from './settings.js';

type Translation =
  /** `none` is the text that Felix's `none` stands for; without it, as if not set. */
  | { readonly setting: SettingName; readonly none?: string }
  /** Needs more than another name. */
  | 'special';

const translations: Readonly<Record<string, Translation>> = {
  DatastoreType: 'special',
  EtcdEndpoints: { setting: 'etcd.endpoints' },
  EtcdAddr: 'special',
  EtcdScheme: 'special',
  EtcdKeyFile: { setting: 'etcd.keyFile', none: 'none' },
  EtcdCertFile: { setting: 'etcd.certFile', none: 'none' },
  EtcdCaFile: { setting: 'etcd.caFile', none: 'none' },
  FelixHostname: { setting: 'host' },
  OpenstackRegion: { setting: 'region', none: 'none' },
  InterfacePrefix: 'special',
  InterfaceExclude: 'special',
  ReportingIntervalSecs: { setting: 'reporting.interval', none: '0' },
  ReportingTTLSecs: { setting: 'reporting.ttl', none: '0' },
  EndpointReportingDelaySecs: { setting: 'limits.endpointDelay', none: '0' },
};

/** Felix's names for each setting; for the reference. */
export const felixNamesOf: ReadonlyMap<SettingName, readonly string[]> = new Map<
  SettingName,
  readonly string[]
>([
  ...Object.entries(translations).flatMap(([name, translation]) =>
    translation === 'special' ? [] : [[translation.setting, [name]] as const],
  ),
  ['etcd.endpoints', ['EtcdEndpoints', 'EtcdAddr', 'EtcdScheme']],
  ['endpoints.interfaces', ['InterfacePrefix']],
  ['endpoints.interfaceExclude', ['InterfaceExclude']],
]);

const properNames = new Map(Object.keys(translations).map((name) => [name.toLowerCase(), name]));

/** `ignored` is told of names that are none of the above. */
export function fromFelix(
  env: NodeJS.ProcessEnv,
  path: string,
  problems: string[],
  ignored: (source: string) => void,
): Layer {
  const found = new Map<string, Found & { value: string }>();
  for (const [name, value, source] of [...felixFile(path, problems), ...felixVariables(env)]) {
    const proper = properNames.get(name.toLowerCase());
    if (proper === undefined) ignored(source);
    else if (value !== '') found.set(proper, { value, source });
  }
  const layer: Layer = new Map();
  for (const [name, { value, source }] of found) {
    const translation = translations[name]!;
    if (translation === 'special') continue;
    const meant = isNone(value) ? translation.none : value;
    if (meant !== undefined) layer.set(translation.setting, { value: meant, source });
  }
  addAddress(found, layer);
  addInterfaces(found, layer, problems);
  const type = found.get('DatastoreType');
  if (type !== undefined && type.value.toLowerCase() !== 'etcdv3')
    problems.push(
      `${type.source}: ${redact('DatastoreType', type.value)} is not etcdv3, the only datastore in which Neutron looks for statuses`,
    );
  return layer;
}

/**
 * Any one of Felix's settings by its name, as Felix would take it from its environment or its file; null: it is set in
 * neither. What is wrong with the file is fromFelix()'s to tell.
 */
export function felixSetting(
  env: NodeJS.ProcessEnv,
  path: string,
  name: string,
): { readonly value: string; readonly source: string } | null {
  const entries = [...felixFile(path, []), ...felixVariables(env)];
  const last = entries.findLast(
    ([other, value]) => other.toLowerCase() === name.toLowerCase() && value !== '',
  );
  return last === undefined ? null : { value: last[1], source: last[2] };
}

type FoundTexts = ReadonlyMap<string, { readonly value: string; readonly source: string }>;

/** EtcdAddr and EtcdScheme say together what EtcdEndpoints says, which wins. */
function addAddress(found: FoundTexts, layer: Layer): void {
  const address = found.get('EtcdAddr');
  if (address === undefined || isNone(address.value) || layer.has('etcd.endpoints')) return;
  const scheme = found.get('EtcdScheme')?.value ?? 'http';
  layer.set('etcd.endpoints', { value: `${scheme}://${address.value}`, source: address.source });
}

function addInterfaces(found: FoundTexts, layer: Layer, problems: string[]): void {
  const prefix = found.get('InterfacePrefix');
  if (prefix !== undefined) {
    const expression = prefixesToRegex(prefix.value);
    if (expression === null)
      problems.push(`${prefix.source}: ${redact('InterfacePrefix', prefix.value)} names no prefix`);
    else layer.set('endpoints.interfaces', { value: expression, source: prefix.source });
  }
  const exclude = found.get('InterfaceExclude');
  if (exclude !== undefined)
    layer.set('endpoints.interfaceExclude', {
      value: isNone(exclude.value) ? 'none' : excludesToRegex(exclude.value),
      source: exclude.source,
    });
}

function isNone(value: string): boolean {
  return value.toLowerCase() === 'none';
}

/** Name, value, and where it was found. */
type Entry = [string, string, string];

function felixVariables(env: NodeJS.ProcessEnv): Entry[] {
  const prefix = 'FELIX_';
  return Object.entries(env)
    .filter(([variable, value]) => variable.toUpperCase().startsWith(prefix) && value !== undefined)
    .map(([variable, value]) => [
      variable.slice(prefix.length),
      value!.trim(),
      `${variable} in the environment`,
    ]);
}

function felixFile(path: string, problems: string[]): Entry[] {
  const content = readConfigFile(path, true, problems);
  if (content === null) return [];
  const entries: Entry[] = [];
  const walk = (node: object): void => {
    for (const [name, value] of Object.entries(node)) {
      if (typeof value === 'object' && value !== null) walk(value);
      else entries.push([name, String(value).trim(), `${name} in ${path}`]);
    }
  };
  walk(parseIni(content));
  return entries;
}

/** `cali,tap` as the expression that means the same; null where no prefix is named. */
export function prefixesToRegex(prefixes: string): string | null {
  const escaped = listOf(prefixes).map(escapeRegex);
  return escaped.length === 0 ? null : `^(${escaped.join('|')})`;
}

/** `kube-ipvs0,/^dummy/`: names, or expressions between slashes. */
export function excludesToRegex(excludes: string): string {
  return listOf(excludes)
    .map((part) =>
      part.length > 1 && part.startsWith('/') && part.endsWith('/')
        ? `(${part.slice(1, -1)})`
        : `^${escapeRegex(part)}$`,
    )
    .join('|');
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function escapeRegex(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
