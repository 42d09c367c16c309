/**
 * A lane: a fixed share of the endpoints with one cursor in etcd and one transaction in flight.
 *
 * It builds batches (at most one transition per endpoint), knows what the cursor must say after each, and takes
 * out what was committed. What to do about an answer is decided in reporter.ts.
 */
import type { EndpointIndex } from '../endpoints/id.js';
import { Status } from '../endpoints/status.js';
import { encodeCursor } from './cursor.js';
import type { Txn } from './effects.js';
import { type EndpointTable, Phase } from './endpoint-table.js';
import { none, type PendingPool } from './pending.js';
import { Ring } from './ring.js';

export interface BatchLimits {
  /** Operations of a transaction, the cursor's among them. */
  readonly maxOps: number;
  readonly bytesMax: number;
  /** Bytes of the answer by which etcd's JSON gateway tells a watcher of it; 0: no limit. */
  readonly watchBytesMax: number;
}

/** A transaction and what it stands for. The same attempt is sent again until etcd says what became of it. */
export interface Attempt {
  readonly txn: Txn;
  /** By operation; `none` for a confirming write. */
  readonly slots: readonly number[];
  readonly acceptedAtMs: readonly number[];
  readonly number: number;
  /** The endpoints ahead of the ack once it is committed. */
  readonly ahead: readonly EndpointIndex[];
  /** Monotonic milliseconds of its first try: it was not applied before. */
  readonly builtAtMs: number;
  /** Some try may have been applied, or may still be. */
  unclear: boolean;
}

/** The kinds of endpoint live below different prefixes, for which a role may lack a permission: they never share a transaction. */
export const kinds = [0, 1] as const;

/** Operation bytes beside the key: field tags, lengths and the value. */
const opOverheadBytes = 40;
/** Measured with etcd's JSON gateway: an answer without events, and an event without key and value. */
const watchAnswerBytes = 130;
const watchEventBytes = 110;
/** `{"status":"up"}` and its like, in base64; a deletion has no value. */
const watchValueBytes: Record<Status, number> = {
  [Status.removed]: 0,
  [Status.up]: 20,
  [Status.down]: 24,
  [Status.error]: 24,
};
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
    const picked = this.#pick(limits, nowMs);
    if (picked.length === 0 && !this.mustAdvance) return null;
    this.mustAdvance = false;
    const { head, known, phase, acceptedAtMs, committedSeq } = this.#table;
    const pool = this.#pool;
    const slots = picked.map((endpoint) => head[endpoint]!);
    const seqs = slots.map((slot) => (slot === none ? Number.NaN : pool.seq[slot]!));
    const statuses = picked.map(
      (endpoint, i) => (slots[i] === none ? known[endpoint]! : pool.status[slots[i]!]!) as Status,
    );
    const accepted = picked.map((endpoint, i) =>
      slots[i] === none ? acceptedAtMs[endpoint]! : pool.acceptedAtMs[slots[i]!]!,
    );
    for (const endpoint of picked) phase[endpoint] = Phase.inflight;

    const ack = this.#ackAfterInflight();
    const ahead: EndpointIndex[] = [];
    const aheadSeqs: number[] = [];
    for (let i = 0; i < picked.length; i++) {
      if (seqs[i]! > ack) {
        ahead.push(picked[i]!);
        aheadSeqs.push(seqs[i]!);
      }
    }
    const before =
      this.#passedOver.length === 0 ? this.#ahead : new Set([...this.#ahead, ...this.#passedOver]);
    for (const endpoint of before) {
      const inBatch = phase[endpoint] === Phase.inflight && head[endpoint] !== none;
      if (!inBatch && committedSeq[endpoint]! > ack) {
        ahead.push(endpoint);
        aheadSeqs.push(committedSeq[endpoint]!);
      }
    }
    this.number++;
    const txn: Txn = {
      lane: this.id,
      claim,
      cursorBefore: this.cursorValue,
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
      builtAtMs: nowMs,
      unclear: false,
    };
  }

  /** Takes out what the attempt carried: it is committed. */
  commit(attempt: Attempt): void {
    const { slots, txn } = attempt;
    for (let i = 0; i < slots.length; i++) {
      if (slots[i] !== none && this.#pool.seq[slots[i]!] === txn.seqs[i]) this.take(txn.endpoints[i]!);
    }
    this.cursorValue = txn.cursorAfter;
    this.#ahead = attempt.ahead;
    const { ack } = this;
    this.#passedOver = this.#passedOver.filter((endpoint) => this.#table.committedSeq[endpoint]! > ack);
    this.earlier = [];
  }

  /** Takes the endpoint's oldest pending transition out of both lists. The caller decides what comes next for it. */
  take(endpoint: EndpointIndex): void {
    const { head, tail, pending, committedSeq } = this.#table;
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
    pool.release(slot);
  }

  /** As take(), for what is passed over without a transaction of its own: the cursor must still come to cover it. */
  passOver(endpoint: EndpointIndex): void {
    this.take(endpoint);
    this.#passedOver.push(endpoint);
    this.mustAdvance = true;
  }

  /** Back to the front of the turn: the attempt was refused for certain. Call schedule.unwound() for each endpoint first. */
  unwind(attempt: Attempt): void {
    const { phase, queued, kind } = this.#table;
    const { endpoints } = attempt.txn;
    for (let i = endpoints.length - 1; i >= 0; i--) {
      const endpoint = endpoints[i]!;
      if (phase[endpoint] === Phase.confirmReady) {
        this.#confirm.unshift(endpoint);
      } else if (phase[endpoint] === Phase.ready && queued[endpoint] === 0) {
        queued[endpoint] = 1;
        this.#ready[kind[endpoint] as 0 | 1].unshift(endpoint);
      }
    }
    if (endpoints.length === 0) this.mustAdvance = true;
  }

  #ackAfterInflight(): number {
    const { head, phase } = this.#table;
    const pool = this.#pool;
    let slot = this.first;
    while (slot !== none) {
      const endpoint = pool.endpoint[slot]!;
      if (phase[endpoint] !== Phase.inflight || head[endpoint] !== slot) return pool.seq[slot]! - 1;
      slot = pool.laneNext[slot]!;
    }
    return this.lastSeq;
  }

  #pick(limits: BatchLimits, nowMs: number): EndpointIndex[] {
    const batch = new Batch(limits, this.endpointsMax, this.#table, this.#pool);
    if (this.#ahead.length + batch.endpointsMax > this.#sackMax) {
      const kind = this.#pickOldest(batch, nowMs);
      if (kind !== 1 && this.deniedUntilMs[0] <= nowMs) this.#pickConfirming(batch);
      return batch.picked;
    }
    this.#turn = this.#turn === 0 ? 1 : 0;
    for (const kind of [this.#turn, 1 - this.#turn] as (0 | 1)[]) {
      if (this.deniedUntilMs[kind] > nowMs) continue;
      this.#pickInTurn(batch, this.#ready[kind]);
      if (kind === 0) this.#pickConfirming(batch);
      if (batch.picked.length > 0) break;
    }
    return batch.picked;
  }

  #pickInTurn(batch: Batch, ring: Ring): void {
    const { phase, queued } = this.#table;
    for (let item = ring.shift(); item !== undefined; item = ring.shift()) {
      queued[item] = 0;
      if (phase[item] !== Phase.ready) continue; // went with the oldest ones meanwhile
      if (!batch.add(item as EndpointIndex)) {
        queued[item] = 1;
        ring.unshift(item);
        return;
      }
    }
  }

  #pickConfirming(batch: Batch): void {
    for (let item = this.#confirm.shift(); item !== undefined; item = this.#confirm.shift()) {
      if (this.#table.phase[item] !== Phase.confirmReady || batch.picked.includes(item as EndpointIndex))
        continue;
      if (!batch.add(item as EndpointIndex)) {
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
      if (!batch.add(endpoint)) break;
      if (overtakes) room--;
      kindOfBatch = kindOfThis;
    }
    return kindOfBatch;
  }
}

/** Endpoints picked for one transaction, within its limits. */
class Batch {
  readonly picked: EndpointIndex[] = [];
  readonly endpointsMax: number;
  readonly #limits: BatchLimits;
  readonly #table: EndpointTable;
  readonly #pool: PendingPool;
  #bytes = 0;
  #watchBytes = watchAnswerBytes;

  constructor(limits: BatchLimits, endpointsMax: number, table: EndpointTable, pool: PendingPool) {
    this.#limits = limits;
    this.endpointsMax = Math.max(1, Math.min(limits.maxOps - 1, endpointsMax));
    this.#table = table;
    this.#pool = pool;
  }

  /** False where it does not fit any more; the first one always does. */
  add(endpoint: EndpointIndex): boolean {
    const { keyBytes, kind, head, known } = this.#table;
    const bytes = keyBytes[endpoint]! + opOverheadBytes;
    const status = (head[endpoint] === none ? known[endpoint] : this.#pool.status[head[endpoint]!]) as Status;
    const watchBytes =
      kind[endpoint] === 0
        ? watchEventBytes + 4 * Math.ceil(keyBytes[endpoint]! / 3) + watchValueBytes[status]
        : 0;
    const { bytesMax, watchBytesMax } = this.#limits;
    const full =
      this.picked.length >= this.endpointsMax ||
      this.#bytes + bytes > bytesMax ||
      (watchBytesMax > 0 && this.#watchBytes + watchBytes > watchBytesMax);
    if (full && this.picked.length > 0) return false;
    this.picked.push(endpoint);
    this.#bytes += bytes;
    this.#watchBytes += watchBytes;
    return true;
  }
}
