/** A model of the journal on disk: what was synced survives a crash, what was not may or may not (a torn tail). */
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import type { Status } from '../../../src/endpoints/status.js';
import { JournalState } from '../../../src/journal/state.js';
import type { Committed } from '../../../src/reporter/effects.js';
import type { Accepted } from './oracle.js';
import type { Random } from './random.js';

export type DiskRecord =
  | { readonly kind: 'transition'; readonly accepted: Accepted }
  | { readonly kind: 'committed'; readonly effect: Committed };

export class ModelDisk {
  records: DiskRecord[] = [];
  /** Every transition up to this seq is durable. */
  syncedSeq = 0;
  #synced = 0;

  append(record: DiskRecord): void {
    this.records.push(record);
  }

  /** Everything appended so far is durable. Returns the highest seq among it. */
  sync(): number {
    this.#synced = this.records.length;
    this.syncedSeq = this.lastSeq;
    return this.syncedSeq;
  }

  get lastSeq(): number {
    let last = 0;
    for (const record of this.records)
      if (record.kind === 'transition') last = Math.max(last, record.accepted.seq);
    return last;
  }

  /** The process or the power is gone: cuts the unsynced tail at a random record. */
  crash(random: Random): void {
    const kept = this.#synced + random.below(this.records.length - this.#synced + 1);
    for (const record of this.records.slice(kept))
      if (record.kind === 'transition') record.accepted.expected = 'never';
    this.records.length = kept;
    this.#synced = kept;
    this.syncedSeq = this.lastSeq; // what is read at the start is synced before it is used
  }

  /** The disk is lost, or an old copy of it was put back: only the first `kept` records are there. */
  rollBack(kept: number): void {
    for (const record of this.records.slice(kept)) {
      if (record.kind === 'transition' && record.accepted.expected === 'must')
        record.accepted.expected = 'may';
    }
    this.records.length = Math.min(kept, this.records.length);
    this.#synced = this.records.length;
    this.syncedSeq = this.lastSeq;
  }

  cursors(): Map<number, Uint8Array> {
    const cursors = new Map<number, Uint8Array>();
    for (const record of this.records) {
      if (record.kind === 'committed') cursors.set(record.effect.lane, record.effect.cursor);
    }
    return cursors;
  }

  /** Endpoints with a confirming write still due, as the journal's own account has it. */
  unconfirmed(): readonly EndpointIndex[] {
    const state = new JournalState();
    for (const record of this.records) {
      if (record.kind !== 'committed') continue;
      const { lane, cursor, revision, endpoints, seqs, confirm } = record.effect;
      state.handler.committed!(lane, cursor, revision, 0, endpoints, seqs, confirm);
    }
    return state.unconfirmed;
  }

  statuses(): Map<EndpointIndex, Status> {
    const statuses = new Map<EndpointIndex, Status>();
    for (const record of this.records) {
      if (record.kind === 'transition') statuses.set(record.accepted.endpoint, record.accepted.status);
    }
    return statuses;
  }
}
