/** etcd as a whole: first whether it can be used, then what flapd may do there, then who else writes there. */
import type { SettingValues } from '../../config/settings.js';
import { claimKey } from '../../endpoints/key.js';
import { type EtcdConnection, EtcdConnectionError } from '../../etcd/connection.js';
import { thisMachine } from '../../etcd/machine.js';
import { type FelixResource, type FelixValue, felixResourceKeys, judgeFelix } from '../felix.js';
import { anyProblem, type Finding, found } from '../finding.js';
import { needsOf } from '../role.js';
import { judgeClaim } from './claim.js';
import { judgeForeignWrites, watchStatuses } from './foreign-writes.js';
import { Member } from './member.js';
import { judgePermissions, probe } from './permissions.js';
import { answers, judgeReach, look } from './reach.js';

export interface EtcdWanted {
  readonly values: SettingValues;
  readonly connection: EtcdConnection;
  readonly felixReporting: FelixValue | null;
  readonly watchMs: number;
}

export async function checkEtcd(wanted: EtcdWanted): Promise<Finding[]> {
  let members: Member[];
  try {
    members = wanted.connection.endpoints.map((endpoint) => new Member(wanted.connection, endpoint));
  } catch (error) {
    if (!(error instanceof EtcdConnectionError)) throw error;
    const wayOut = 'see to what is said of these files here, and check again';
    return [found('etcd-unknown', `etcd cannot be asked anything: ${error.message}`, wayOut)];
  }
  try {
    const seen = await look(members);
    const findings = judgeReach(seen);
    const working = members.find((_, i) => answers(seen[i]!));
    // Without a leader, every question would wait for its deadline.
    if (working === undefined || findings.some(({ id }) => id === 'etcd-no-leader'))
      return [...findings, judgeFelix(wanted.felixReporting, wanted.values.host, unreadResources)];
    return [...findings, ...(await checkContents(working, wanted))];
  } finally {
    for (const member of members) member.close();
  }
}

const unreadResources = { node: { kind: 'unread' }, global: { kind: 'unread' } } as const;

async function checkContents(member: Member, wanted: EtcdWanted): Promise<Finding[]> {
  const { values, connection, watchMs } = wanted;
  const where = { host: values.host, region: values.region };
  const permissions = judgePermissions(await probe(member, needsOf(values)), {
    host: values.host,
    endpoint: member.endpoint,
  });
  const felix = judgeFelix(wanted.felixReporting, values.host, await readFelix(member, values.host));
  const claim = await member.read(claimKey(where));
  const findings = [...permissions];
  if (claim.kind === 'answer')
    findings.push(judgeClaim(claim.value.keys[0]?.value ?? null, where, thisMachine().name));
  findings.push(felix);
  // What may not be read may not be watched, and has been told.
  if (watchMs > 0 && !anyProblem(permissions))
    findings.push(
      judgeForeignWrites(
        await watchStatuses({ ...connection, endpoints: [member.endpoint] }, member, where, watchMs),
        watchMs,
      ),
    );
  return findings;
}

/** flapd's role need not reach them: what may not be read is no problem by itself. */
async function readFelix(
  member: Member,
  host: string,
): Promise<{ readonly node: FelixResource; readonly global: FelixResource }> {
  const keys = felixResourceKeys(host);
  const read = async (key: string): Promise<FelixResource> => {
    const answer = await member.read(key);
    return answer.kind === 'failed'
      ? { kind: 'unread' }
      : { kind: 'read', value: answer.value.keys[0]?.value ?? null };
  };
  return { node: await read(keys.node), global: await read(keys.global) };
}
