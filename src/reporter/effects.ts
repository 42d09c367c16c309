/** What the core wants done. The daemon carries it out and comes back with an event. */
import type { EndpointIndex } from '../endpoints/id.js';
import type { Status } from '../endpoints/status.js';

/**
 * One transaction of a lane. A retry carries the same object, so that its encoding can be kept:
 *
 *     if value(claim) = claim and value(cursor) = cursorBefore (null: version(cursor) = 0)
 *     then put or delete each endpoint's key, put(cursor, cursorAfter)
 *     else get(claim), get(cursor)
 */
export interface Txn {
  readonly lane: number;
  readonly claim: Uint8Array;
  readonly cursorBefore: Uint8Array | null;
  readonly cursorAfter: Uint8Array;
  /** Each endpoint at most once; `statuses[i]` belongs to `endpoints[i]`; `removed` is a delete. May be empty. */
  readonly endpoints: readonly EndpointIndex[];
  readonly statuses: readonly Status[];
  /** Of each transition; NaN for a confirming write. Not sent: for those who keep account. */
  readonly seqs: readonly number[];
}

/** Transitions now known to be in etcd. Arrays run in parallel. */
export interface Committed {
  readonly kind: 'committed';
  readonly lane: number;
  readonly revision: number;
  /** An earlier try whose answer was lost had been applied. */
  readonly recovered: boolean;
  readonly cursor: Uint8Array;
  readonly endpoints: readonly EndpointIndex[];
  readonly statuses: readonly Status[];
  /** NaN for a confirming write, which is no transition. */
  readonly seqs: readonly number[];
  /** Monotonic milliseconds at which each was accepted (observed, for a confirming write). */
  readonly acceptedAtMs: readonly number[];
  /** Whether its reader may miss it, so that it has to be put once more unless another transition comes. */
  readonly confirm: readonly boolean[];
}

export type Effect =
  /**
   * Take the claim. `epoch` is the one held so far, 0 at first. The new one must be higher than that too, since etcd
   * may have been set back: were it the same again, what is still on its way could be mistaken for new. And where
   * another instance holds an epoch as high, this one has been taken over: refused.
   */
  | { readonly kind: 'claim'; readonly epoch: number }
  /**
   * `after`: the number of the lane's transaction that is under way. This one goes the moment that one has committed;
   * where it does not, the answer is `notSent`. Null: at once.
   */
  | { readonly kind: 'send'; readonly txn: Txn; readonly attempt: number; readonly after: number | null }
  /** Unless the transaction that was to follow another has gone already, it stays: the answer is `notSent`. */
  | { readonly kind: 'withdraw'; readonly lane: number; readonly attempt: number }
  | Committed
  /** Call poll() again at this monotonic time at the latest. */
  | { readonly kind: 'arm'; readonly atMs: number }
  /** Another flapd writes for this host: stop for good, exit 77. */
  | { readonly kind: 'fenced'; readonly by: string }
  /** etcd's state went backwards or was emptied, or the journal did: compare everything. */
  | { readonly kind: 'resync'; readonly reason: 'restored' | 'journalBehind' }
  | {
      readonly kind: 'deadLetter';
      readonly endpoint: EndpointIndex;
      readonly status: Status;
      readonly seq: number;
      readonly reason: string;
    }
  | {
      readonly kind: 'retry';
      readonly lane: number;
      readonly reason: string;
      readonly delayMs: number;
      readonly message: string;
    };
