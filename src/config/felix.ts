/**
 * Felix's own settings, so that a compute node's felix.cfg and FELIX_ variables just work (Calico's
 * felix/config/config_params.go). Names are compared without regard to case.
 */
import type { SettingName } from './settings.js';

export type FelixMapping =
  | { readonly kind: 'setting'; readonly name: SettingName }
  /** Checked, and otherwise of no consequence. */
  | { readonly kind: 'datastoreType' }
  /** Together they say what EtcdEndpoints says, which wins. */
  | { readonly kind: 'etcdAddr' }
  | { readonly kind: 'etcdScheme' }
  | { readonly kind: 'interfacePrefix' }
  | { readonly kind: 'interfaceExclude' }
  | { readonly kind: 'region' };

const setting = (name: SettingName): FelixMapping => ({ kind: 'setting', name });

export const felixNames: Readonly<Record<string, FelixMapping>> = {
  DatastoreType: { kind: 'datastoreType' },
  EtcdEndpoints: setting('etcd.endpoints'),
  EtcdAddr: { kind: 'etcdAddr' },
  EtcdScheme: { kind: 'etcdScheme' },
  EtcdKeyFile: setting('etcd.keyFile'),
  EtcdCertFile: setting('etcd.certFile'),
  EtcdCaFile: setting('etcd.caFile'),
  FelixHostname: setting('host'),
  OpenstackRegion: { kind: 'region' },
  InterfacePrefix: { kind: 'interfacePrefix' },
  InterfaceExclude: { kind: 'interfaceExclude' },
  ReportingIntervalSecs: setting('reporting.interval'),
  ReportingTTLSecs: setting('reporting.ttl'),
  EndpointReportingDelaySecs: setting('limits.endpointDelay'),
};

const byLowerCase = new Map(
  Object.entries(felixNames).map(([name, mapping]) => [name.toLowerCase(), { name, mapping }]),
);

export function findFelixName(name: string): { name: string; mapping: FelixMapping } | undefined {
  return byLowerCase.get(name.toLowerCase());
}

/** `cali,tap` as the expression that means the same. */
export function prefixesToRegex(prefixes: string): string {
  const escaped = prefixes
    .split(',')
    .map((prefix) => escapeRegex(prefix.trim()))
    .filter((prefix) => prefix !== '');
  return `^(${escaped.join('|')})`;
}

/** `kube-ipvs0,/^dummy/`: names, or expressions between slashes. */
export function excludesToRegex(excludes: string): string {
  const parts = excludes
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  return parts
    .map((part) =>
      part.length > 1 && part.startsWith('/') && part.endsWith('/')
        ? `(${part.slice(1, -1)})`
        : `^${escapeRegex(part)}$`,
    )
    .join('|');
}

function escapeRegex(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
