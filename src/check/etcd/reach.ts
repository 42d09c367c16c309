/** Whether etcd can be used at all: every endpoint by itself, since one that fails hides behind the others for long. */
import type { Failure } from '../../etcd/classify.js';
import { type Finding, fine, found } from '../finding.js';
import type { Alarms, Answer, Member, MemberStatus } from './member.js';
import { judgeVersion } from './versions.js';

export interface Seen {
  readonly endpoint: string;
  readonly status: Answer<MemberStatus>;
  readonly alarms: Answer<Alarms>;
}

/** Asks all members at a time. */
export function look(members: readonly Member[]): Promise<Seen[]> {
  return Promise.all(
    members.map(async (member) => {
      const [status, alarms] = await Promise.all([member.status(), member.alarms()]);
      return { endpoint: member.endpoint, status, alarms };
    }),
  );
}

/** Whether a member answers, be it that it tells us nothing: newer versions tell its status to root alone. */
export function answers({ status }: Seen): boolean {
  return status.kind === 'answer' || status.failure.kind === 'denied';
}

/** Pure. */
export function judgeReach(seen: readonly Seen[]): Finding[] {
  const findings = [
    ...unreachable(seen),
    ...unauthenticated(seen),
    ...leaderless(seen),
    ...alarmed(seen),
    ...differing(seen),
    ...versions(seen),
  ];
  const working = seen.filter(answers);
  if (working.length > 0 && !findings.some(({ level }) => level === 'problem')) {
    const each = working.map(({ endpoint, status }) =>
      status.kind === 'answer'
        ? `${endpoint} (${status.value.version})`
        : `${endpoint} (tells its version to root alone)`,
    );
    findings.unshift(fine('etcd', `reachable: ${each.join(', ')}`));
  }
  return findings;
}

/** Without gRPC's trimmings. */
function plainMessage(message: string): string {
  return message
    .replace(/^\d+ [A-Z_]+: (No connection established\. Last error: )?/, '')
    .replace(/\.?\s*Resolution note:\s*$/, '');
}

function failureOf({ status }: Seen): Failure | null {
  return status.kind === 'failed' ? status.failure : null;
}

function unreachable(seen: readonly Seen[]): Finding[] {
  const gone = seen.filter((one) => {
    const failure = failureOf(one);
    return failure !== null && failure.kind !== 'denied' && failure.kind !== 'unauthenticated';
  });
  const wayOut =
    'start etcd there, or correct etcd.endpoints (--etcd URLS); see to firewall and routes: ' +
    'etcdctl --endpoints=... endpoint health';
  const id = gone.length === seen.length ? 'etcd-unreachable' : 'etcd-member-unreachable';
  return gone.map((one) =>
    found(id, `${one.endpoint} cannot be used: ${plainMessage(failureOf(one)!.message)}`, wayOut),
  );
}

function unauthenticated(seen: readonly Seen[]): Finding[] {
  const refusing = seen.filter((one) => failureOf(one)?.kind === 'unauthenticated');
  if (refusing.length === 0) return [];
  return [
    authenticationFinding(
      refusing.map(({ endpoint }) => endpoint).join(', '),
      failureOf(refusing[0]!)!.message,
    ),
  ];
}

export function authenticationFinding(endpoint: string, message: string): Finding {
  return found(
    'etcd-authentication',
    `${endpoint} does not let us in: ${message}`,
    'the right user in etcd.user and its password in the file that etcd.passwordFile names, or a certificate whose ' +
      'common name is the user (etcd.certFile, etcd.keyFile). A new password: etcdctl user passwd USER',
  );
}

function leaderless(seen: readonly Seen[]): Finding[] {
  const without = seen.filter(({ status }) => status.kind === 'answer' && !status.value.knowsLeader);
  if (without.length === 0) return [];
  return [
    found(
      'etcd-no-leader',
      `no leader is known to ${without.map(({ endpoint }) => endpoint).join(', ')}: the cluster has lost its majority, and takes no writes`,
      'start the missing members; which those are says: etcdctl endpoint status --cluster -w table',
    ),
  ];
}

function alarmed(seen: readonly Seen[]): Finding[] {
  const has = (kind: keyof Alarms) =>
    seen.some(({ alarms }) => alarms.kind === 'answer' && alarms.value[kind]);
  const findings: Finding[] = [];
  if (has('noSpace'))
    findings.push(
      found(
        'etcd-no-space',
        'etcd is full (alarm NOSPACE) and takes no writes',
        'etcdctl compact REVISION; etcdctl defrag --cluster; etcdctl alarm disarm. ' +
          'A larger --quota-backend-bytes, or --auto-compaction-retention, keeps it from coming back',
      ),
    );
  if (has('corrupt'))
    findings.push(
      found(
        'etcd-corrupt',
        'the members of etcd differ (alarm CORRUPT), and it takes no writes',
        "find the damaged member with etcdctl endpoint hashkv --cluster and replace it, as etcd's guide for data corruption says",
      ),
    );
  return findings;
}

function differing(seen: readonly Seen[]): Finding[] {
  const clusters = new Map<number, string[]>();
  for (const { endpoint, status } of seen) {
    if (status.kind !== 'answer') continue;
    const { clusterId } = status.value;
    clusters.set(clusterId, [...(clusters.get(clusterId) ?? []), endpoint]);
  }
  if (clusters.size < 2) return [];
  const groups = [...clusters.values()].map((endpoints) => endpoints.join(', '));
  return [
    found(
      'etcd-clusters-differ',
      `the endpoints belong to ${clusters.size} different clusters: ${groups.join(' | ')}`,
      'name the members of one cluster alone in etcd.endpoints: the one that Neutron uses',
    ),
  ];
}

function versions(seen: readonly Seen[]): Finding[] {
  const told = new Set(
    seen.flatMap(({ status }) => (status.kind === 'answer' ? [status.value.version] : [])),
  );
  return [...told].flatMap((version) => {
    const { faults, upgradeTo } = judgeVersion(version);
    if (faults.length === 0) return [];
    return [
      found('etcd-version', `etcd ${version}: ${faults.join('; ')}`, `upgrade etcd to ${upgradeTo} or later`),
    ];
  });
}
