/**
 * The transactions that a worker has, lane by lane: one that follows another goes in the very turn of the loop in which that one
 * has committed. Asking the main thread first would cost two wake-ups of a sleeping thread, while etcd has nothing to do.
 */
import type { Turn, TxnResult } from './task.js';

interface Entry {
  readonly attempt: number;
  /** Null while it waits for its turn. */
  committed: Promise<boolean> | null;
  /** Gives up waiting. */
  withdraw: () => void;
}

const notSent: TxnResult = { answer: { kind: 'notSent' }, durationMs: 0, waitedMs: 0 };

export class Turns {
  /** The newest of each lane. One that waits has the one that it follows before it. */
  readonly #newest = new Map<number, { readonly entry: Entry; readonly before: Entry | null }>();

  /** Calls `send` when it is this one's turn, and ends as that does; `notSent` where its turn does not come. */
  async run({ lane, attempt, after }: Turn, send: () => Promise<TxnResult>): Promise<TxnResult> {
    const before = this.#newest.get(lane)?.entry ?? null;
    const entry: Entry = { attempt, committed: null, withdraw: () => undefined };
    if (after !== null) {
      if (before?.attempt !== after || before.committed === null) return notSent;
      const withdrawn = new Promise<boolean>((resolve) => {
        entry.withdraw = () => resolve(false);
      });
      this.#newest.set(lane, { entry, before });
      if (!(await Promise.race([before.committed, withdrawn]))) {
        if (this.#newest.get(lane)?.entry === entry) this.#newest.set(lane, { entry: before, before: null });
        return notSent;
      }
    }
    const sent = send();
    entry.committed = sent.then(
      ({ answer }) => answer.kind === 'committed',
      () => false,
    );
    this.#newest.set(lane, { entry, before: null });
    return sent;
  }

  withdraw(lane: number, attempt: number): void {
    const newest = this.#newest.get(lane)?.entry;
    if (newest?.attempt === attempt) newest.withdraw();
  }
}
