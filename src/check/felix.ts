/**
 * Whether Felix reports endpoints' statuses itself, which would write the same keys. networking-calico switches that on
 * for all hosts (`endpointReportingEnabled` of the FelixConfiguration `default`); Felix takes the first that is set of
 * its environment, its file, the FelixConfiguration `node.<host>`, and that one (felix/config/config_params.go). Pure.
 */

import { resources } from '../sources/datastore/resource.js';
import { type Finding, fine, found } from './finding.js';

export interface FelixValue {
  readonly value: string;
  readonly source: string;
}

/** What was found of a FelixConfiguration: its value, `none`, or that it could not be read. */
export type FelixResource =
  | { readonly kind: 'read'; readonly value: Uint8Array | null }
  | { readonly kind: 'unread' };

export function felixResourceKeys(host: string): { readonly node: string; readonly global: string } {
  const prefix = `${resources}felixconfigurations/`;
  return { node: `${prefix}node.${host}`, global: `${prefix}default` };
}

export function judgeFelix(
  local: FelixValue | null,
  host: string,
  resources: { readonly node: FelixResource; readonly global: FelixResource },
): Finding {
  const keys = felixResourceKeys(host);
  const candidates = [
    local,
    fromResource(resources.node, keys.node),
    fromResource(resources.global, keys.global),
  ];
  for (const candidate of candidates) {
    if (candidate === null) continue;
    if (candidate === 'unread')
      return fine(
        'other writers',
        'felix.cfg does not say whether Felix reports endpoints itself, and the FelixConfiguration in etcd could not be read: look there, or set EndpointReportingEnabled = false in felix.cfg',
      );
    const on = parseFelixBoolean(candidate.value);
    if (on === null) return unreadable(candidate);
    if (!on) return fine('other writers', `Felix does not report endpoints (${candidate.source})`);
    return found(
      'felix-reports',
      `Felix reports endpoints' statuses itself: EndpointReportingEnabled is ${candidate.value} (${candidate.source})`,
      'EndpointReportingEnabled = false in /etc/calico/felix.cfg of this host, or FELIX_ENDPOINTREPORTINGENABLED=false in ' +
        "Felix's environment (Neutron's driver switches it on for all hosts, and those two win), and restart Felix",
    );
  }
  return fine('other writers', 'Felix does not report endpoints (it is switched on nowhere)');
}

function unreadable({ value, source }: FelixValue): Finding {
  return found(
    'felix-setting',
    `EndpointReportingEnabled (${source}) is ${JSON.stringify(value)}, which Felix does not understand`,
    'set it to false, and restart Felix',
  );
}

/** As Felix reads one; null: it would not. */
export function parseFelixBoolean(text: string): boolean | null {
  if (/^(true|1|yes|y|t)$/i.test(text)) return true;
  return /^(false|0|no|n|f)$/i.test(text) ? false : null;
}

function fromResource(resource: FelixResource, key: string): FelixValue | 'unread' | null {
  if (resource.kind === 'unread') return 'unread';
  if (resource.value === null) return null;
  try {
    const parsed = JSON.parse(Buffer.from(resource.value).toString('utf8')) as {
      spec?: { endpointReportingEnabled?: unknown };
    } | null;
    const value = parsed?.spec?.endpointReportingEnabled;
    return value === undefined || value === null ? null : { value: String(value), source: key };
  } catch {
    return null; // Felix passes over what it cannot read, too
  }
}
