/**
 * Tells writes to this host's status keys that are not flapd's. Each of flapd's own transactions puts a lane's cursor,
 * and all that one transaction writes has one revision: so a status key that was written at a revision at which no
 * cursor was put has been written by somebody else.
 *
 * The two are learned from separate watches, since no permission reaches across their prefixes. Each watch is in order,
 * but neither waits for the other. So a status is judged only once the cursors are known up to its revision: by a later
 * cursor, or because the caller says so (settle). What cannot be judged any more is passed over: better no alarm than a
 * wrong one. Pure; it holds at most `heldMax` revisions of each kind.
 */

export interface StatusWrite {
  readonly key: string;
  readonly revision: number;
}

const heldMaxDefault = 65_536;

export class ForeignWrites<Write extends StatusWrite = StatusWrite> {
  readonly #heldMax: number;
  /** Revisions at which a cursor was put: oldest first, as a Set keeps them. */
  readonly #own = new Set<number>();
  /** Of revisions up to here, it is no longer known whether a cursor was put. */
  #forgottenTo = 0;
  /** Every cursor put up to here has been told. */
  #cursorsTo = 0;
  #waiting: Write[] = [];
  #unjudged = 0;

  constructor({ heldMax = heldMaxDefault }: { readonly heldMax?: number } = {}) {
    this.#heldMax = heldMax;
  }

  /** Writes that were passed over, because too much was held. */
  get unjudged(): number {
    return this.#unjudged;
  }

  /** How many writes cannot be judged yet. */
  get undecided(): number {
    return this.#waiting.length;
  }

  /** A cursor was put, or a transaction of our own was committed, at this revision. In order; twice does no harm. */
  cursor(revision: number): Write[] {
    this.#own.add(revision);
    if (this.#own.size > this.#heldMax) {
      const [oldest] = this.#own;
      this.#own.delete(oldest!);
      this.#forgottenTo = Math.max(this.#forgottenTo, oldest!);
    }
    return this.settle(revision);
  }

  /** Status keys were put or deleted. Returns what of it is foreign; the rest may turn out so later. */
  statuses(writes: readonly Write[]): Write[] {
    for (const write of writes) this.#waiting.push(write);
    const tooMany = this.#waiting.length - this.#heldMax;
    if (tooMany > 0) {
      this.#waiting = this.#waiting.slice(tooMany);
      this.#unjudged += tooMany;
    }
    return this.#judge();
  }

  /** No cursor was put up to this revision but those that were told. Returns what has turned out to be foreign. */
  settle(revision: number): Write[] {
    if (revision > this.#cursorsTo) this.#cursorsTo = revision;
    return this.#judge();
  }

  /** etcd was set back, or a watch had a gap: revisions mean something else from now on. */
  reset(): void {
    this.#own.clear();
    this.#waiting = [];
    this.#forgottenTo = 0;
    this.#cursorsTo = 0;
  }

  #judge(): Write[] {
    const foreign: Write[] = [];
    const still: Write[] = [];
    for (const write of this.#waiting) {
      const { revision } = write;
      if (this.#own.has(revision)) continue;
      if (revision > this.#cursorsTo) still.push(write);
      else if (revision > this.#forgottenTo) foreign.push(write);
      else this.#unjudged++;
    }
    this.#waiting = still;
    return foreign;
  }
}
