/**
 * A lane: a fixed share of the endpoints with one cursor in etcd and one transaction in flight.
 *
 * It builds batches (at most one transition per endpoint), knows what the cursor must say after each, and takes
 * out what was committed. What to do about an answer is decided in reporter.ts.
 *
 * Where there is more to come in any case, the transaction that follows is built while the one before is in flight: the
 * successor. It compares with the cursor that the one before writes, so that it can only ever be applied after it; and
 * whoever carries both out sends it the moment that the one before has committed, without asking here.
 */
import type { EndpointIndex } from '../endpoints/id.js';
import type { Status } from '../endpoints/status.js';
import { Batch, type BatchLimits } from './batch.js';
import { encodeCursor, sameBytes } from './cursor.js';
import type { Txn } from './effects.js';
import { type EndpointTable, Phase } from './endpoint-table.js';
import { none, type PendingPool } from './pending.js';
import { Ring } from './ring.js';

/** A transaction and what it stands for. The same attempt is sent again until etcd says what became of it. */
export interface Attempt {
  readonly txn: Txn;
  /** By operation; `none` for a confirming write. */
  readonly slots: readonly number[];
  readonly acceptedAtMs: readonly number[];
  readonly number: number;
  /** The endpoints ahead of the ack once it is committed, and up to which seq each of them. */
  readonly ahead: readonly EndpointIndex[];
  readonly aheadSeqs: readonly number[];
  /** Monotonic milliseconds of its first try: it was not applied before. */
  readonly builtAtMs: number;
  /** Some try may have been applied, or may still be. */
  unclear: boolean;
  /** The one that it follows, until that is known to be committed: this one cannot be, unless that is. */
  after: Attempt | null;
  /** How many of its endpoints were waiting for their turn; the others have their second transition in a row in it. */
  readonly waited: number;
  /** Whether it had room for one more that waits, if need be in place of one that does not. */
  readonly open: boolean;
}

/** The kinds of endpoint live below different prefixes, for which a role may lack a permission: they never share a transaction. */
export const kinds = [0, 1] as const;

const nobody: ReadonlySet<EndpointIndex> = new Set();
/** How far the search for the oldest transitions goes along the lane's list. */
const oldestScanMax = 4096;

export class Lane {
  readonly id: number;
  readonly #table: EndpointTable;
  readonly #pool: PendingPool;
  readonly #sackMax: number;
  /** The lane's pending transitions in seq order. */
  first = none;
  last = none;
  /** The highest seq that the lane ever had. */
  lastSeq = 0;
  /** What its cursor holds in etcd as far as is known; null: no such key. */
  cursorValue: Uint8Array | null = null;
  /** Of its newest transaction. */
  number = 0;
  inflight: Attempt | null = null;
  /** What follows the transaction in flight. */
  successor: Attempt | null = null;
  /** The successor is to be sent on its predecessor's commit: there will be an answer to it. */
  handedOver = false;
  /** ... unless that can still be prevented. */
  withdrawn = false;
  /** The number of the transaction whose successor came back without having been asked to: it gets no other. */
  notFollowed = 0;
  /** Unclear attempts given up for smaller ones. One of them may turn out to be what etcd has. */
  earlier: Attempt[] = [];
  /** The cursor is to be written even if there is nothing to put. */
  mustAdvance = false;
  /** Failed tries since the last commit. */
  failures = 0;
  notBeforeMs = Number.NEGATIVE_INFINITY;
  readonly deniedUntilMs: [number, number] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  /** Fewer than the limits say, while a transition that etcd will not take is being isolated. */
  endpointsMax = Number.POSITIVE_INFINITY;
  /** Endpoints committed beyond the oldest pending transition. */
  #ahead: readonly EndpointIndex[] = [];
  /** Endpoints that came to be ahead without a transaction since the last commit. */
  #passedOver: EndpointIndex[] = [];
  readonly #ready: readonly [Ring, Ring] = [new Ring(), new Ring()];
  readonly #confirm = new Ring();
  #turn: 0 | 1 = 0;

  constructor(id: number, table: EndpointTable, pool: PendingPool, sackMax: number) {
    this.id = id;
    this.#table = table;
    this.#pool = pool;
    this.#sackMax = sackMax;
  }

  /** Everything with seq <= ack is committed. */
  get ack(): number {
    return this.first === none ? this.lastSeq : this.#pool.seq[this.first]! - 1;
  }

  /** How many endpoints are committed beyond the ack. */
  get aheadCount(): number {
    return this.#ahead.length;
  }

  /** Takes over what a cursor read from etcd says: its value, and which endpoints are ahead. */
  adopt(value: Uint8Array | null, number: number, lastSeq: number, ahead: readonly EndpointIndex[]): void {
    this.cursorValue = value;
    this.number = Math.max(this.number, number);
    this.lastSeq = Math.max(this.lastSeq, lastSeq);
    this.#ahead = [...new Set([...this.#ahead, ...ahead])];
    this.earlier = [];
  }

  append(slot: number): void {
    const pool = this.#pool;
    pool.lanePrevious[slot] = this.last;
    pool.laneNext[slot] = none;
    if (this.last === none) this.first = slot;
    else pool.laneNext[this.last] = slot;
    this.last = slot;
    this.lastSeq = pool.seq[slot]!;
  }

  /** The endpoint is ready or confirmReady: in turn, it goes with a batch. */
  queue(endpoint: EndpointIndex): void {
    const { phase, queued, kind } = this.#table;
    if (phase[endpoint] === Phase.confirmReady) {
      this.#confirm.push(endpoint);
      return;
    }
    if (queued[endpoint] === 1) return;
    queued[endpoint] = 1;
    this.#ready[kind[endpoint] as 0 | 1].push(endpoint);
  }

  /** The next transaction; null where there is nothing to send. */
  build(claim: Uint8Array, limits: BatchLimits, nowMs: number): Attempt | null {
    const batch = this.#pick(limits, nowMs);
    if (batch.picked.length === 0 && !this.mustAdvance) return null;
    return this.#attempt(claim, batch, batch.picked.length, null, nowMs);
  }

  /**
   * What follows the transaction in flight. Nobody who comes later finds room in it, so it must be full, or one more must
   * come after it in any case: else null, since waiting saves etcd a transaction. `mayFollow`: whether the transition in
   * this slot may go right behind its endpoint's one before.
   */
  buildSuccessor(
    claim: Uint8Array,
    limits: BatchLimits,
    nowMs: number,
    mayFollow: (slot: number) => boolean,
  ): Attempt | null {
    const before = this.inflight!;
    const batch = new Batch(limits, this.endpointsMax, this.#table, this.#pool);
    // What is rare, and changes the cursor in ways of its own, waits until nothing is in flight.
    if (this.#passedOver.length > 0 || before.ahead.length + batch.endpointsMax > this.#sackMax) return null;
    const turn = this.#turn;
    this.#pickInTurn(batch, nowMs);
    const waited = batch.picked.length;
    if (!batch.full) this.#pickAgain(batch, before, mayFollow);
    if (!batch.full && !batch.picked.some((endpoint) => this.#hasMore(endpoint))) {
      this.#turn = turn;
      this.#putBack(batch.picked.slice(0, waited));
      return null;
    }
    return this.#attempt(claim, batch, waited, before, nowMs);
  }

  /** Whether somebody waits who would go with the successor, were it built now. */
  successorIsLate(nowMs: number): boolean {
    const { txn, open, waited } = this.successor!;
    const kind = this.#table.kind[txn.endpoints[0]!] as 0 | 1;
    const other = kind === 0 ? 1 : 0;
    return (open && this.#waits(kind, nowMs)) || (waited === 0 && this.#waits(other, nowMs));
  }

  #waits(kind: 0 | 1, nowMs: number): boolean {
    return this.#ready[kind].size > 0 && this.deniedUntilMs[kind] <= nowMs;
  }

  /** `waited`: so many of the batch were in turn. `before`: it follows that one; null: what is committed. */
  #attempt(claim: Uint8Array, batch: Batch, waited: number, before: Attempt | null, nowMs: number): Attempt {
    this.mustAdvance = false;
    const { picked } = batch;
    const { known, phase, sending, acceptedAtMs } = this.#table;
    const pool = this.#pool;
    const slots = picked.map((endpoint) => this.#nextSlot(endpoint));
    const seqs = slots.map((slot) => (slot === none ? Number.NaN : pool.seq[slot]!));
    const statuses = picked.map(
      (endpoint, i) => (slots[i] === none ? known[endpoint]! : pool.status[slots[i]!]!) as Status,
    );
    const accepted = picked.map((endpoint, i) =>
      slots[i] === none ? acceptedAtMs[endpoint]! : pool.acceptedAtMs[slots[i]!]!,
    );
    for (let i = 0; i < picked.length; i++) {
      phase[picked[i]!] = Phase.inflight;
      if (slots[i] !== none) sending[picked[i]!]!++;
    }
    const ack = this.#ackAfterSending();
    const [ahead, aheadSeqs] = this.#aheadAfter(ack, picked, seqs, before);
    this.number++;
    const txn: Txn = {
      lane: this.id,
      claim,
      cursorBefore: before === null ? this.cursorValue : before.txn.cursorAfter,
      cursorAfter: encodeCursor(this.number, ack, ahead, aheadSeqs),
      endpoints: picked,
      statuses,
      seqs,
    };
    return {
      txn,
      slots,
      acceptedAtMs: accepted,
      number: this.number,
      ahead,
      aheadSeqs,
      builtAtMs: nowMs,
      unclear: false,
      after: before,
      waited,
      open: !batch.full || waited < picked.length,
    };
  }

  /** The endpoints that are beyond this ack once the batch is committed, and up to which seq each of them. */
  #aheadAfter(
    ack: number,
    picked: readonly EndpointIndex[],
    seqs: readonly number[],
    before: Attempt | null,
  ): [EndpointIndex[], number[]] {
    const ahead: EndpointIndex[] = [];
    const aheadSeqs: number[] = [];
    const add = (endpoint: EndpointIndex, seq: number): void => {
      if (seq <= ack) return;
      ahead.push(endpoint);
      aheadSeqs.push(seq);
    };
    const { committedSeq } = this.#table;
    const were = before === null ? this.#aheadNow() : before.ahead;
    const wereSeqs = before === null ? were.map((endpoint) => committedSeq[endpoint]!) : before.aheadSeqs;
    const sent = were.length === 0 ? nobody : new Set(picked.filter((_, i) => !Number.isNaN(seqs[i])));
    for (let i = 0; i < picked.length; i++) {
      if (!Number.isNaN(seqs[i])) add(picked[i]!, seqs[i]!); // a confirming write moves nothing
    }
    for (let i = 0; i < were.length; i++) if (!sent.has(were[i]!)) add(were[i]!, wereSeqs[i]!);
    return [ahead, aheadSeqs];
  }

  /** The endpoints that are committed beyond the ack, with a transaction or without. */
  #aheadNow(): readonly EndpointIndex[] {
    return this.#passedOver.length === 0 ? this.#ahead : [...new Set([...this.#ahead, ...this.#passedOver])];
  }

  /** The endpoint's oldest pending transition that is in no transaction. */
  #nextSlot(endpoint: EndpointIndex): number {
    const { head, sending } = this.#table;
    return sending[endpoint] === 0 ? head[endpoint]! : this.#pool.next[head[endpoint]!]!;
  }

  /** Whether more is pending of it than one more transaction can take. */
  #hasMore(endpoint: EndpointIndex): boolean {
    const slot = this.#nextSlot(endpoint);
    return slot !== none && this.#pool.next[slot] !== none;
  }

  /** Takes out what the attempt carried: it is committed, and nothing else but its successor is in flight. */
  commit(attempt: Attempt): void {
    const { slots, txn } = attempt;
    for (let i = 0; i < slots.length; i++) {
      if (slots[i] !== none && this.#pool.seq[slots[i]!] === txn.seqs[i]) this.take(txn.endpoints[i]!);
    }
    this.cursorValue = txn.cursorAfter;
    this.#ahead = attempt.ahead;
    const { ack } = this;
    this.#passedOver = this.#passedOver.filter((endpoint) => this.#table.committedSeq[endpoint]! > ack);
    this.inflight = this.successor;
    this.successor = null;
    // What follows it can be applied from now on; all else that was under way compares with a cursor that is gone.
    this.earlier = this.earlier.filter(({ after }) => after === attempt);
    for (const follower of this.inflight === null ? this.earlier : [this.inflight, ...this.earlier])
      follower.after = null;
  }

  /** Takes the endpoint's oldest pending transition out of both lists. The caller decides what comes next for it. */
  take(endpoint: EndpointIndex): void {
    const { head, tail, pending, sending, committedSeq } = this.#table;
    const pool = this.#pool;
    const slot = head[endpoint]!;
    const previous = pool.lanePrevious[slot]!;
    const next = pool.laneNext[slot]!;
    if (previous === none) this.first = next;
    else pool.laneNext[previous] = next;
    if (next === none) this.last = previous;
    else pool.lanePrevious[next] = previous;
    committedSeq[endpoint] = pool.seq[slot]!;
    head[endpoint] = pool.next[slot]!;
    if (head[endpoint] === none) tail[endpoint] = none;
    pending[endpoint]!--;
    if (sending[endpoint]! > 0) sending[endpoint]!--;
    pool.release(slot);
  }

  /** As take(), for what is passed over without a transaction of its own: the cursor must still come to cover it. */
  passOver(endpoint: EndpointIndex): void {
    this.take(endpoint);
    this.#passedOver.push(endpoint);
    this.mustAdvance = true;
  }

  /** The attempt after which the cursor says this; undefined: none that can have been applied. */
  attempted(cursorValue: Uint8Array): Attempt | undefined {
    for (const attempt of [this.inflight, this.successor, ...this.earlier])
      if (attempt !== null && sameBytes(attempt.txn.cursorAfter, cursorValue)) return attempt;
    return undefined;
  }

  /** Nothing is in flight any more: back to the front of their turn. What may have been applied all the same is remembered. */
  unwind(): void {
    for (const attempt of [this.successor, this.inflight]) if (attempt !== null) this.#unwindOne(attempt);
    this.successor = null;
    this.inflight = null;
  }

  /** The same of the successor alone, of which it is known that it was not sent. */
  unwindSuccessor(): void {
    this.#unwindOne(this.successor!);
    this.successor = null;
  }

  #unwindOne(attempt: Attempt): void {
    const { head, phase, sending } = this.#table;
    const { endpoints } = attempt.txn;
    if (attempt.unclear) this.earlier.push(attempt);
    const free: EndpointIndex[] = [];
    for (let i = 0; i < endpoints.length; i++) {
      const endpoint = endpoints[i]!;
      if (attempt.slots[i] !== none) sending[endpoint]!--;
      if (sending[endpoint]! > 0) continue; // the one before has it as well
      phase[endpoint] = head[endpoint] === none ? Phase.confirmReady : Phase.ready;
      free.push(endpoint);
    }
    this.#putBack(free);
    if (endpoints.length === 0) this.mustAdvance = true;
  }

  #putBack(endpoints: readonly EndpointIndex[]): void {
    const { phase, queued, kind } = this.#table;
    for (let i = endpoints.length - 1; i >= 0; i--) {
      const endpoint = endpoints[i]!;
      if (phase[endpoint] === Phase.confirmReady) {
        this.#confirm.unshift(endpoint);
      } else if (phase[endpoint] === Phase.ready && queued[endpoint] === 0) {
        queued[endpoint] = 1;
        this.#ready[kind[endpoint] as 0 | 1].unshift(endpoint);
      }
    }
  }

  #ackAfterSending(): number {
    const { head, sending } = this.#table;
    const pool = this.#pool;
    for (let slot = this.first; slot !== none; slot = pool.laneNext[slot]!) {
      const endpoint = pool.endpoint[slot]!;
      const first = head[endpoint]!;
      const sent =
        slot === first ? sending[endpoint]! > 0 : sending[endpoint] === 2 && pool.next[first] === slot;
      if (!sent) return pool.seq[slot]! - 1;
    }
    return this.lastSeq;
  }

  #pick(limits: BatchLimits, nowMs: number): Batch {
    const batch = new Batch(limits, this.endpointsMax, this.#table, this.#pool);
    if (this.#ahead.length + batch.endpointsMax > this.#sackMax) {
      const kind = this.#pickOldest(batch, nowMs);
      if (kind !== 1 && this.deniedUntilMs[0] <= nowMs) this.#pickConfirming(batch);
    } else {
      this.#pickInTurn(batch, nowMs);
    }
    return batch;
  }

  #pickInTurn(batch: Batch, nowMs: number): void {
    this.#turn = this.#turn === 0 ? 1 : 0;
    for (const kind of [this.#turn, 1 - this.#turn] as (0 | 1)[]) {
      if (this.deniedUntilMs[kind] > nowMs) continue;
      this.#pickReady(batch, this.#ready[kind]);
      if (kind === 0) this.#pickConfirming(batch);
      if (batch.picked.length > 0) return;
    }
  }

  #pickReady(batch: Batch, ring: Ring): void {
    const { head, phase, queued } = this.#table;
    for (let item = ring.shift(); item !== undefined; item = ring.shift()) {
      queued[item] = 0;
      if (phase[item] !== Phase.ready) continue; // went with the oldest ones meanwhile
      if (!batch.add(item as EndpointIndex, head[item]!)) {
        queued[item] = 1;
        ring.unshift(item);
        return;
      }
    }
  }

  /** Endpoints that the transaction in flight has a transition of: their next ones. */
  #pickAgain(batch: Batch, before: Attempt, mayFollow: (slot: number) => boolean): void {
    const { endpoints } = before.txn;
    const { kind } = this.#table;
    if (batch.picked.length > 0 && kind[batch.picked[0]!] !== kind[endpoints[0]!]) return;
    for (let i = 0; i < endpoints.length; i++) {
      if (before.slots[i] === none) continue; // a new transition makes its confirming write pointless
      const slot = this.#pool.next[before.slots[i]!]!;
      if (slot !== none && mayFollow(slot) && !batch.add(endpoints[i]!, slot)) return;
    }
  }

  #pickConfirming(batch: Batch): void {
    for (let item = this.#confirm.shift(); item !== undefined; item = this.#confirm.shift()) {
      if (this.#table.phase[item] !== Phase.confirmReady || batch.picked.includes(item as EndpointIndex))
        continue;
      if (!batch.add(item as EndpointIndex, none)) {
        this.#confirm.unshift(item);
        return;
      }
    }
  }

  /** The cursor has no room for more endpoints ahead: only what moves the ack, or overtakes with one that is ahead already. Returns the kind picked. */
  #pickOldest(batch: Batch, nowMs: number): number | null {
    const { head, phase, kind, committedSeq } = this.#table;
    const pool = this.#pool;
    const ack = this.ack;
    let room = this.#sackMax - this.#ahead.length;
    let contiguous = true;
    let kindOfBatch: number | null = null;
    let slot = this.first;
    for (let scanned = 0; slot !== none && scanned < oldestScanMax; scanned++, slot = pool.laneNext[slot]!) {
      const endpoint = pool.endpoint[slot]! as EndpointIndex;
      const kindOfThis = kind[endpoint] as 0 | 1;
      const can =
        head[endpoint] === slot &&
        phase[endpoint] === Phase.ready &&
        this.deniedUntilMs[kindOfThis] <= nowMs &&
        (kindOfBatch === null || kindOfBatch === kindOfThis);
      const overtakes = !contiguous && committedSeq[endpoint]! <= ack;
      if (!can || (overtakes && room === 0)) {
        contiguous = false;
        continue;
      }
      if (!batch.add(endpoint, slot)) break;
      if (overtakes) room--;
      kindOfBatch = kindOfThis;
    }
    return kindOfBatch;
  }
}
