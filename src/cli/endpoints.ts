import { Command } from 'commander';
import type { EndpointReport } from '../daemon/operate/figures.js';
import { addAdminOptions, askDaemon } from './admin.js';

interface Options extends Record<string, unknown> {
  readonly json: boolean;
  readonly knownOnly: boolean;
}

export function endpointsCommand(): Command {
  const command = new Command('endpoints').description(
    'the endpoints of the running daemon, with their status as it knows them and as they are in etcd',
  );
  return addAdminOptions(command)
    .option('--known-only', 'do not look into etcd', false)
    .action(async (options: Options) => {
      const path = options.knownOnly ? '/endpoints' : '/endpoints?etcd=true';
      const answer = await askDaemon<{ endpoints: EndpointReport[] }>(options, 'GET', path);
      if (options.json) console.log(JSON.stringify(answer));
      else for (const endpoint of answer.endpoints) console.log(endpointText(endpoint));
    });
}

export function endpointText({ id, status, pending, inEtcd }: EndpointReport): string {
  const name = id.kind === 'host' ? id.endpoint : `${id.orchestrator}/${id.workload}/${id.endpoint}`;
  const parts = [
    id.kind === 'host' ? 'host' : 'vm  ',
    (status ?? 'unknown').padEnd(7),
    ...(inEtcd === undefined ? [] : [`in etcd: ${(inEtcd ?? 'no key').padEnd(10)}`]),
    name,
  ];
  const settled = inEtcd === undefined || (inEtcd ?? 'removed') === (status ?? 'removed');
  if (pending > 0) parts.push(`(${pending} pending)`);
  else if (!settled) parts.push('(differs: the next resync puts it right)');
  return parts.join(' ');
}
