/** Whether etcd allows what flapd needs, found out without changing anything. */
import { type Finding, fine, found } from '../finding.js';
import { grantCommand, type Need, type Right, roleName } from '../role.js';
import type { Answer, Member } from './member.js';
import { authenticationFinding } from './reach.js';

export type Probed =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'lacks'; readonly rights: readonly Right[] }
  | { readonly kind: 'unauthenticated' | 'unknown'; readonly message: string };

/** One after another, so that a wrong password costs etcd one authentication. */
export async function probe(
  member: Member,
  needs: readonly Need[],
): Promise<{ readonly need: Need; readonly probed: Probed }[]> {
  const results: { need: Need; probed: Probed }[] = [];
  for (const need of needs) {
    const probed = await probeNeed(member, need);
    results.push({ need, probed });
    if (probed.kind === 'unauthenticated') break;
  }
  return results;
}

async function probeNeed(member: Member, { key, prefix, rights }: Need): Promise<Probed> {
  const lacks: Right[] = [];
  for (const right of rights) {
    // A watch wants the same right as a read of the same range.
    const answer: Answer<unknown> =
      right === 'read'
        ? await member.read(key, { prefix, limit: 1 })
        : await member.mayPut(prefix ? bothEnds(key) : [key]);
    if (answer.kind === 'answer') continue;
    const { failure } = answer;
    if (failure.kind === 'denied') lacks.push(right);
    else
      return {
        kind: failure.kind === 'unauthenticated' ? 'unauthenticated' : 'unknown',
        message: failure.message,
      };
  }
  return lacks.length === 0 ? { kind: 'allowed' } : { kind: 'lacks', rights: lacks };
}

/** The first key of a prefix and one of its last: a role for a part of it lacks one of them. */
function bothEnds(prefix: string): [string, Uint8Array] {
  return [prefix, Buffer.concat([Buffer.from(prefix), Buffer.from([0xff])])];
}

/** Pure. */
export function judgePermissions(
  results: readonly { readonly need: Need; readonly probed: Probed }[],
  at: { readonly host: string; readonly endpoint: string },
): Finding[] {
  const findings = results.flatMap(({ need, probed }) => judgeNeed(need, probed, at) ?? []);
  if (findings.length > 0) return findings;
  return [fine('permissions', `etcd allows all that is needed, on ${results.length} ranges of keys`)];
}

function judgeNeed(
  need: Need,
  probed: Probed,
  { host, endpoint }: { readonly host: string; readonly endpoint: string },
): Finding | null {
  const range = `${need.key}${need.prefix ? '...' : ''}`;
  switch (probed.kind) {
    case 'allowed':
      return null;
    case 'lacks':
      return found(
        'etcd-permission',
        `no permission to ${probed.rights.join(' and to ')} ${range} (${need.why})`,
        `as etcd's root, for the role of flapd's user: ${grantCommand(roleName(host), need)}`,
      );
    case 'unauthenticated':
      return authenticationFinding(endpoint, probed.message);
    case 'unknown':
      return found(
        'etcd-unknown',
        `whether flapd may use ${range} cannot be told: ${probed.message}`,
        'see to what else is said of etcd here, and check again',
      );
  }
}
