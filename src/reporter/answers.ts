/** What etcd (or the worker in front of it) can say to a lane's transaction; docs/design.md, section 8. */
export type TxnAnswer =
  | { readonly kind: 'committed'; readonly revision: number }
  | {
      /** The compare failed: what the claim and the cursor really hold (null: no such key). Atomic, so always current. */
      readonly kind: 'conflict';
      readonly revision: number;
      readonly claim: Uint8Array | null;
      readonly cursor: { readonly value: Uint8Array; readonly modRevision: number } | null;
    }
  /** Perhaps applied, perhaps not, perhaps later: only the same transaction again tells. */
  | { readonly kind: 'unclear'; readonly reason: UnclearReason; readonly message: string }
  /** Refused before it was proposed: too many operations, or too many bytes, for this server. */
  | { readonly kind: 'tooLarge'; readonly limit: 'ops' | 'bytes'; readonly message: string }
  /** Refused before it was proposed: etcd has too many requests waiting. */
  | { readonly kind: 'overloaded'; readonly message: string }
  /** Refused: token missing, invalid, expired or of an old auth revision. The worker already asks for a new one. */
  | { readonly kind: 'unauthenticated'; readonly message: string }
  /** Refused: the role lacks a permission. */
  | { readonly kind: 'denied'; readonly message: string }
  /** Refused for good: etcd will never take this request (an invalid argument). */
  | { readonly kind: 'invalid'; readonly message: string }
  /** It was to follow a transaction that did not commit, or was withdrawn: etcd has not seen it. */
  | { readonly kind: 'notSent' };

export type UnclearReason =
  | 'timeout'
  | 'unavailable'
  | 'leaderChanged'
  | 'noSpace'
  /** The worker died, hung or threw with the transaction in its hands. */
  | 'worker'
  | 'other';

/** The claim transaction's outcome (section 8.1). Cursors are final: nothing of an older epoch can follow. */
export type ClaimAnswer =
  | {
      readonly kind: 'claimed';
      readonly claim: Uint8Array;
      readonly epoch: number;
      readonly revision: number;
      /** By lane; null where the lane has no cursor yet. */
      readonly cursors: readonly (Uint8Array | null)[];
    }
  /** Another machine holds this host's claim. */
  | { readonly kind: 'refused'; readonly holder: string; readonly message: string }
  /** Not done, or not known to be done: safe to try again. */
  | {
      readonly kind: 'unclear';
      readonly reason: UnclearReason | 'unauthenticated' | 'denied' | 'overloaded';
      readonly message: string;
    };
