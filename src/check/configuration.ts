/** What may be said of settings that are each allowed. Those that are not have ended the command with exit code 78. Pure. */
import { BlockList, isIP } from 'node:net';
import { redact } from '../config/redact.js';
import type { Settings } from '../config/settings.js';
import { type Finding, fine, found } from './finding.js';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

export function judgeConfiguration({ values, sources, ignored }: Settings, withSources: boolean): Finding[] {
  const findings = [
    fine(
      'configuration',
      `host ${values.host}, ${values.region === null ? 'no region' : `region ${values.region}`}, endpoints from ` +
        `${values['endpoints.from']}, ${sources.size} settings set`,
    ),
  ];
  if (withSources) {
    for (const [name, source] of sources)
      findings.push(fine('configuration', `${name} = ${redact(name, shown(values[name]))} from ${source}`));
    for (const source of ignored) findings.push(fine('configuration', `Felix's own, passed over: ${source}`));
  }
  if (values['etcd.embeddedDir'] !== null) return findings;
  const plain = values['etcd.endpoints'].filter(
    (endpoint) => /^http:/i.test(endpoint) && !isLoopback(new URL(endpoint).hostname),
  );
  if (plain.length > 0)
    findings.push(
      found(
        'plain-http',
        `${plain.join(', ')}: passwords and statuses go over the network as they are, and anybody on it may change them`,
        "serve etcd by TLS (its --cert-file, --key-file), name it https://... in etcd.endpoints, and its CA's file in etcd.caFile",
      ),
    );
  return findings;
}

function shown(value: unknown): unknown {
  return value instanceof RegExp ? value.source : value;
}

function isLoopback(hostname: string): boolean {
  const address = hostname.replace(/^\[|\]$/g, '');
  const family = isIP(address);
  return family === 0 ? address === 'localhost' : loopback.check(address, family === 4 ? 'ipv4' : 'ipv6');
}
