/**
 * The process status: by it Neutron sees that a host's agent lives (docs/design.md, section 4). Two keys with one value,
 * one of them with a lease, written in one transaction that holds only as long as the claim is ours. Its compare makes
 * an unclear one known: the value that stands there tells whether it was applied.
 */
import type { Etcd3, IRequestOp, Lease } from 'etcd3';
import { messageOf } from './classify.js';

export interface Heartbeat {
  readonly expiringKey: string;
  readonly lastKey: string;
  readonly claimKey: string;
  readonly claim: Uint8Array;
  readonly value: Buffer;
  /** What the last key holds as far as is known; null: nothing. */
  readonly before: Buffer | null;
}

export type HeartbeatAnswer =
  | { readonly kind: 'put' }
  /** The last key holds something else than was known: that of an unclear heartbeat before, or somebody else's. */
  | { readonly kind: 'differs'; readonly found: Buffer | null }
  /** The claim is not ours any more, or not there. */
  | { readonly kind: 'notOurs' };

/** One lease serves as long as it lives; it is kept alive with each heartbeat, and lost with an outage longer than itself. */
export class HeartbeatLease {
  readonly #ttlMs: number;
  readonly #deadlineMs: number;
  #lease: { readonly client: Etcd3; readonly lease: Lease } | null = null;

  /** `deadlineMs`: of the call that keeps it alive, which has none by itself. */
  constructor(ttlMs: number, deadlineMs: number) {
    this.#ttlMs = ttlMs;
    this.#deadlineMs = deadlineMs;
  }

  /** The id of a lease that has its whole time before it. Rejects with etcd3's error. */
  async alive(client: Etcd3): Promise<string> {
    if (this.#lease?.client === client) {
      try {
        await this.#lease.lease.keepaliveOnce({ deadline: Date.now() + this.#deadlineMs });
        return await this.#lease.lease.grant();
      } catch (error) {
        this.#lease = null;
        if (!/lease/i.test(messageOf(error))) throw error;
      }
    }
    // etcd counts in seconds.
    const lease = client.lease(Math.ceil(this.#ttlMs / 1000), { autoKeepAlive: false });
    const id = await lease.grant();
    this.#lease = { client, lease };
    return id;
  }
}

/** Rejects with etcd3's error: then it is not known whether it was put, and the next one will tell. */
export async function putHeartbeat(client: Etcd3, lease: string, beat: Heartbeat): Promise<HeartbeatAnswer> {
  const { value, before } = beat;
  const key = Buffer.from(beat.lastKey);
  const claimKey = Buffer.from(beat.claimKey);
  const get = (of: Buffer): IRequestOp => ({ request_range: { key: of } });
  const response = await client.kv.txn({
    compare: [
      { result: 'Equal', target: 'Value', key: claimKey, value: Buffer.from(beat.claim) },
      before === null
        ? { result: 'Equal', target: 'Version', key, version: '0' }
        : { result: 'Equal', target: 'Value', key, value: before },
    ],
    success: [
      { request_put: { key: Buffer.from(beat.expiringKey), value, lease } },
      { request_put: { key, value } },
    ],
    failure: [get(claimKey), get(key)],
  });
  if (response.succeeded) return { kind: 'put' };
  const [claim, last] = response.responses.map(({ response_range }) => response_range?.kvs[0]?.value ?? null);
  if (!claim?.equals(beat.claim)) return { kind: 'notOurs' };
  return { kind: 'differs', found: last ?? null };
}
