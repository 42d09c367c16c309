/** A model of etcd: one store, atomic transactions, a history, snapshots; and the errors it answers with. */
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Status } from '../../../src/endpoints/status.js';
import type { TxnAnswer } from '../../../src/reporter/answers.js';
import { encodeClaim, parseClaim } from '../../../src/reporter/claim.js';
import { sameBytes } from '../../../src/reporter/cursor.js';
import type { Txn } from '../../../src/reporter/effects.js';

/** One revision of an endpoint's key. `seq` is NaN for a confirming write. */
export interface Revision {
  readonly revision: number;
  readonly epoch: number;
  readonly seq: number;
  readonly status: Status;
  readonly atMs: number;
}

interface Key {
  readonly value: Uint8Array;
  readonly modRevision: number;
}

interface State {
  revision: number;
  claim: Key | null;
  cursors: Map<number, Key>;
  /** The current value of each endpoint's key; no entry: no such key. */
  values: Map<EndpointIndex, Status>;
  history: Map<EndpointIndex, Revision[]>;
}

export class ModelEtcd {
  #state: State = { revision: 1, claim: null, cursors: new Map(), values: new Map(), history: new Map() };
  /** Operations a transaction may hold. */
  maxOps = 128;
  /** Endpoints whose operation is refused as invalid, whatever else the transaction holds. */
  readonly poisoned = new Set<EndpointIndex>();

  get revision(): number {
    return this.#state.revision;
  }

  get values(): ReadonlyMap<EndpointIndex, Status> {
    return this.#state.values;
  }

  history(endpoint: EndpointIndex): readonly Revision[] {
    return this.#state.history.get(endpoint) ?? [];
  }

  snapshot(): State {
    return structuredClone(this.#state);
  }

  /** Everything since the snapshot never happened. */
  restore(snapshot: State): void {
    this.#state = structuredClone(snapshot);
  }

  /** What etcd/claim.ts reads first: its transaction then compares that the claim is still that. */
  get claimModRevision(): number {
    return this.#state.claim?.modRevision ?? 0;
  }

  /** Takes the claim for this instance, as etcd/claim.ts does. `asRead`: claimModRevision when it was read. */
  claim(
    instance: string,
    lanes: number,
    ownEpoch: number,
    asRead: number,
  ):
    | { claim: Uint8Array; epoch: number; revision: number; cursors: (Uint8Array | null)[] }
    | 'refused'
    | 'changed' {
    const state = this.#state;
    const before = state.claim === null ? null : parseClaim(state.claim.value);
    if (this.claimModRevision !== asRead) return 'changed';
    if (ownEpoch > 0 && before !== null && before.instance !== instance && before.epoch >= ownEpoch)
      return 'refused';
    const epoch = Math.max(before?.epoch ?? 0, ownEpoch) + 1;
    const claim = encodeClaim({ epoch, instance, machine: 'm', lanes, startedAt: '2026-01-01T00:00:00Z' });
    state.revision++;
    state.claim = { value: claim, modRevision: state.revision };
    const cursors = Array.from({ length: lanes }, (_, lane) => state.cursors.get(lane)?.value ?? null);
    return { claim, epoch, revision: state.revision, cursors };
  }

  /** `seqs` runs along with the transaction's endpoints: the model keeps what flapd itself does not write. */
  txn(txn: Txn, seqs: readonly number[], epoch: number, nowMs: number): TxnAnswer {
    if (new Set(txn.endpoints).size !== txn.endpoints.length)
      throw new Error('duplicate key given in txn request');
    if (txn.endpoints.length + 1 > this.maxOps) {
      return { kind: 'tooLarge', limit: 'ops', message: 'too many operations in txn request' };
    }
    if (txn.endpoints.some((endpoint) => this.poisoned.has(endpoint)))
      return { kind: 'invalid', message: 'poisoned' };
    const state = this.#state;
    const cursor = state.cursors.get(txn.lane) ?? null;
    const claimHolds = state.claim !== null && sameBytes(state.claim.value, txn.claim);
    const cursorHolds =
      txn.cursorBefore === null
        ? cursor === null
        : cursor !== null && sameBytes(cursor.value, txn.cursorBefore);
    if (!claimHolds || !cursorHolds) {
      return { kind: 'conflict', revision: state.revision, claim: state.claim?.value ?? null, cursor };
    }
    state.revision++;
    state.cursors.set(txn.lane, { value: txn.cursorAfter, modRevision: state.revision });
    txn.endpoints.forEach((endpoint, i) => {
      const status = txn.statuses[i]!;
      if (status === Status.removed) state.values.delete(endpoint);
      else state.values.set(endpoint, status);
      const revisions = state.history.get(endpoint) ?? [];
      revisions.push({ revision: state.revision, epoch, seq: seqs[i]!, status, atMs: nowMs });
      state.history.set(endpoint, revisions);
    });
    return { kind: 'committed', revision: state.revision };
  }
}
