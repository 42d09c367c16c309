/** A host's keys and transactions as flapd would build them, with claim and cursors that tests can read. */
import assert from 'node:assert/strict';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { claimKey, cursorKey, statusKey } from '../../../src/endpoints/key.js';
import { Status } from '../../../src/endpoints/status.js';
import { TxnEncoder } from '../../../src/etcd/encoding.js';
import type { TxnTransport } from '../../../src/etcd/transport.js';
import type { TxnAnswer } from '../../../src/reporter/answers.js';
import type { Etcd } from '../../support/etcd.js';

export const versions = ['3.4', '3.5'] as const;

const where = { host: 'host1', region: null };

export const keys = {
  claimKey: claimKey(where),
  cursorKey: (lane: number) => cursorKey(where, lane),
  statusKeyOf: (endpoint: EndpointIndex) =>
    statusKey(
      {
        kind: 'workload',
        orchestrator: 'openstack',
        workload: `openstack/vm${endpoint}`,
        endpoint: `port${endpoint}`,
      },
      where,
    ),
};

export const bytes = (text: string) => new Uint8Array(Buffer.from(text));

const encoder = new TxnEncoder(keys);

/** `before` null: the cursor does not exist yet. Each endpoint is put as `up`, unless a status is given. */
export function request(
  before: string | null,
  after: string,
  {
    claim = 'claim',
    lane = 0,
    endpoints = 1,
    status = Status.up,
  }: { claim?: string; lane?: number; endpoints?: number; status?: Status } = {},
): Uint8Array<ArrayBuffer> {
  return encoder.encode({
    lane,
    claim: bytes(claim),
    cursorBefore: before === null ? null : bytes(before),
    cursorAfter: bytes(after),
    endpoints: Array.from({ length: endpoints }, (_, i) => i as EndpointIndex),
    statuses: Array.from({ length: endpoints }, () => status),
    seqs: [],
  });
}

export function putClaim(etcd: Etcd, claim = 'claim'): void {
  etcd.ctl('put', keys.claimKey, claim);
}

/** The key's value and how often it was written; null: no such key. */
export function read(
  etcd: Etcd,
  key: string,
): { value: string; version: number; modRevision: number } | null {
  const { kvs } = JSON.parse(etcd.ctl('get', key, '-w', 'json')) as {
    kvs?: { value: string; version: number; mod_revision: number }[];
  };
  const kv = kvs?.[0];
  if (kv === undefined) return null;
  return {
    value: Buffer.from(kv.value, 'base64').toString(),
    version: kv.version,
    modRevision: kv.mod_revision,
  };
}

export function summary(answer: TxnAnswer): string {
  if (answer.kind === 'unclear') return `unclear ${answer.reason}`;
  return answer.kind === 'tooLarge' ? `tooLarge ${answer.limit}` : answer.kind;
}

/** Sends the same transaction until the answer says what became of it, as a lane does. */
export async function settle(
  transport: TxnTransport,
  sent: Uint8Array,
  deadlineMs = 20_000,
): Promise<TxnAnswer> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const answer = await transport.txn(sent);
    if (answer.kind === 'committed' || answer.kind === 'conflict') return answer;
    assert.ok(
      performance.now() < endMs,
      `not settled within ${deadlineMs} ms; last answer: ${JSON.stringify(answer)}`,
    );
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
