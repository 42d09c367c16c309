/**
 * What flapd must be allowed to do in etcd for one host, and the etcdctl commands that allow just that. Pure.
 *
 * Ranges end with a `/`, so that the role of host1 cannot write host10's keys; single keys are granted singly.
 * Read is needed wherever flapd compares (the cursor, the claim, the process status), lists (resync) or watches; a lease
 * needs no right of its own.
 */
import type { SettingValues } from '../config/settings.js';
import { flapdPrefix, hostPrefix, processStatusKeys, workloadPrefix } from '../endpoints/key.js';
import { hostResources, workloadResources } from '../sources/datastore/resource.js';
import { shellWord } from './shell.js';

export type Right = 'read' | 'write';

export interface Need {
  readonly key: string;
  /** All keys that begin so, or just the one. */
  readonly prefix: boolean;
  readonly rights: readonly Right[];
  readonly why: string;
}

export function needsOf(values: SettingValues): Need[] {
  const where = { host: values.host, region: values.region };
  const both = ['read', 'write'] as const;
  const needs: Need[] = [
    { key: flapdPrefix(where), prefix: true, rights: both, why: 'claim and cursors' },
    { key: workloadPrefix(where), prefix: true, rights: both, why: "workload endpoints' statuses" },
    { key: hostPrefix(where), prefix: true, rights: both, why: "host endpoints' statuses" },
  ];
  if (values['reporting.processStatus'] && values['reporting.interval'] > 0) {
    const { expiring, last } = processStatusKeys(where);
    needs.push(
      { key: expiring, prefix: false, rights: both, why: "Neutron's sign of life" },
      { key: last, prefix: false, rights: both, why: 'the last sign of life' },
    );
  }
  if (values['endpoints.from'] === 'calico')
    needs.push(
      {
        key: workloadResources(where),
        prefix: true,
        rights: ['read'],
        why: "this node's workload endpoints",
      },
      { key: hostResources, prefix: true, rights: ['read'], why: 'host endpoints' },
    );
  return needs;
}

export function roleName(host: string): string {
  return `flapd-${host}`;
}

export function grantCommand(role: string, { key, prefix, rights }: Need): string {
  const right = rights.length === 2 ? 'readwrite' : rights[0]!;
  return `etcdctl role grant-permission ${shellWord(role)} ${right} ${shellWord(key)}${prefix ? ' --prefix=true' : ''}`;
}

/** How the user proves who it is: a certificate whose common name it is, a password in a file, or one typed in. */
export interface RoleUser {
  readonly name: string;
  readonly proof: 'certificate' | 'file' | 'typed';
  readonly passwordFile: string | null;
}

/** To be run as etcd's root, in this order; those that already hold fail, and do no harm. */
export function roleCommands(values: SettingValues, user: RoleUser): string[] {
  const role = roleName(values.host);
  const add = `etcdctl user add ${shellWord(user.name)}`;
  const adds = {
    certificate: `${add} --no-password`,
    file: `${add} --interactive=false < ${shellWord(user.passwordFile ?? '')}`,
    typed: add,
  };
  return [
    `etcdctl role add ${shellWord(role)}`,
    ...needsOf(values).map((need) => grantCommand(role, need)),
    adds[user.proof],
    `etcdctl user grant-role ${shellWord(user.name)} ${shellWord(role)}`,
  ];
}
