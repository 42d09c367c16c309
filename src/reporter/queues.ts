/**
 * The endpoints and what is pending of each: columns by endpoint, the pool of pending transitions, the lanes that share
 * them out and the schedule that says when each may go. It gives transitions their seqs and takes up what the journal of
 * an earlier life left. What to send, and what answers mean, is reporter.ts's.
 */
import type { EndpointIndex, EndpointKind } from '../endpoints/id.js';
import { Source, Status } from '../endpoints/status.js';
import { covers, decodeCursor, highestSeq } from './cursor.js';
import { EndpointTable, Phase, unknown } from './endpoint-table.js';
import { Lane } from './lane.js';
import { none, PendingPool } from './pending.js';
import { Schedule, type ScheduleOptions } from './schedule.js';

export interface QueuesOptions {
  readonly lanes: number;
  /** How many endpoints of a lane may be committed beyond its oldest pending transition; see cursor.ts. */
  readonly sackMax: number;
  readonly schedule: ScheduleOptions;
  readonly pendingMax: number;
  /** The journal's append: called for each transition before observe() returns. */
  readonly append: (
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    source: Source,
    initial: boolean,
  ) => void;
}

export type Observed = 'accepted' | 'unchanged' | 'full';

export interface LaneReport {
  readonly lane: number;
  readonly pending: number;
  readonly inflight: boolean;
  /** Failed tries since its last commit. */
  readonly failures: number;
  readonly ack: number;
}

/** What comes back within this begins with down, since its reader remembers it as well. */
const rememberRemovedMs = 3_600_000;

export class Queues {
  readonly table = new EndpointTable();
  readonly pool = new PendingPool();
  readonly schedule: Schedule;
  lanes: Lane[];
  /** What etcd had at the start is known. */
  seeded = false;
  /** Number of the resync that is under way, or was last: what is busy in its course is not judged by it. */
  resyncRun = 0;
  /** Up to here, transitions are from an earlier life of this journal. */
  restoredSeq = 0;
  /** Of this life. */
  firstSeq = 1;
  nextSeq = 1;
  readonly #options: QueuesOptions;

  constructor(options: QueuesOptions) {
    this.#options = options;
    this.lanes = this.#newLanes(options.lanes);
    this.schedule = new Schedule(this.table, this.pool, options.schedule, (endpoint) =>
      this.laneOf(endpoint).queue(endpoint),
    );
  }

  // --- what it can be asked -------------------------------------------------------------------------------------

  get pending(): number {
    return this.pool.size;
  }

  get lastSeq(): number {
    return this.nextSeq - 1;
  }

  /** Every transition with a lower seq is settled. */
  get oldestPendingSeq(): number {
    let oldest = this.nextSeq;
    for (const { first } of this.lanes) if (first !== none) oldest = Math.min(oldest, this.pool.seq[first]!);
    return oldest;
  }

  /** When the oldest pending transition was accepted; null: nothing is pending. */
  get oldestPendingMs(): number | null {
    let oldest: number | null = null;
    for (const { first } of this.lanes) {
      if (first === none) continue;
      const acceptedAtMs = this.pool.acceptedAtMs[first]!;
      if (oldest === null || acceptedAtMs < oldest) oldest = acceptedAtMs;
    }
    return oldest;
  }

  /** The last accepted status; undefined: nothing is known. */
  status(endpoint: EndpointIndex): Status | undefined {
    const status = this.table.known[endpoint];
    return status === undefined || status === unknown ? undefined : (status as Status);
  }

  laneReports(): LaneReport[] {
    return this.lanes.map((lane) => {
      let pending = 0;
      for (let slot = lane.first; slot !== none; slot = this.pool.laneNext[slot]!) pending++;
      return {
        lane: lane.id,
        pending,
        inflight: lane.inflight !== null,
        failures: lane.failures,
        ack: lane.ack,
      };
    });
  }

  pendingOf(endpoint: EndpointIndex): number {
    return this.table.pending[endpoint] ?? 0;
  }

  // --- events: before the start ----------------------------------------------------------------------------------

  /** An endpoint has a number now. `keyBytes`: the length of its status key. */
  addEndpoint(endpoint: EndpointIndex, kind: EndpointKind, lane: number, keyBytes: number): void {
    this.table.add(endpoint, kind, lane, keyBytes);
  }

  /** From the journal: the last status that was accepted of an endpoint. */
  restoreStatus(endpoint: EndpointIndex, status: Status, nowMs: number): void {
    this.table.known[endpoint] = status;
    // When its last transition was sent is not known: it may have been a moment ago.
    this.table.committedAtMs[endpoint] = nowMs;
  }

  /** From the journal, after restored(): the endpoint's last status still has to be put once more. */
  restoreUnconfirmed(endpoint: EndpointIndex, nowMs: number): void {
    this.schedule.unconfirmed(endpoint, nowMs);
  }

  /** From the journal: a transition that may not be committed yet; in seq order. It is durable already. */
  restoreTransition(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    initial: boolean,
    nowMs: number,
  ): void {
    this.link(seq, endpoint, status, initial, nowMs);
  }

  /** From the journal: the newest cursor known to be committed. etcd having an older one means that it was set back. */
  restoreCursor(laneId: number, value: Uint8Array): void {
    const lane = this.lanes[laneId];
    if (lane === undefined) return;
    const { number, ack } = decodeCursor(value);
    lane.number = number;
    lane.lastSeq = Math.max(lane.lastSeq, ack);
  }

  /**
   * From the journal, last: the highest seq it ever had. This life's seqs begin at `firstSeq`, if that is higher: a
   * number that no life before can have reached (Unix microseconds), so that nothing accepted now can be mistaken for
   * something committed long ago where the journal was lost, or an old copy of it was put back.
   */
  restored(lastSeq: number, firstSeq: number, nowMs: number): void {
    this.restoredSeq = lastSeq;
    this.nextSeq = Math.max(lastSeq + 1, firstSeq);
    this.firstSeq = this.nextSeq;
    this.schedule.durable(lastSeq, nowMs);
  }

  /**
   * What cursors just read mean to what the journal left, by lane: whether they cover all of it; the highest number of
   * a transaction, and the highest seq, that they or the journal know of.
   */
  review(values: readonly (Uint8Array | null)[]): { complete: boolean; number: number; highest: number } {
    const cursors = values.map((value) => (value === null ? null : decodeCursor(value)));
    let complete = true;
    for (const { first, id } of this.lanes) {
      for (
        let slot = first;
        slot !== none && this.pool.seq[slot]! <= this.restoredSeq;
        slot = this.pool.laneNext[slot]!
      ) {
        const cursor = cursors[id] ?? null;
        const endpoint = this.pool.endpoint[slot]! as EndpointIndex;
        if (cursor === null || !covers(cursor, endpoint, this.pool.seq[slot]!)) complete = false;
      }
    }
    const number = Math.max(
      0,
      ...cursors.map((cursor) => cursor?.number ?? 0),
      ...this.lanes.map((lane) => lane.number),
    );
    const highest = Math.max(
      this.restoredSeq,
      ...cursors.map((cursor) => (cursor === null ? 0 : highestSeq(cursor))),
    );
    return { complete, number, highest };
  }

  /** Another number of lanes, before the first claim: no transaction is under way yet. */
  setLanes(count: number, laneOf: (endpoint: EndpointIndex) => number): void {
    const slots: number[] = [];
    for (const lane of this.lanes) {
      for (let slot = lane.first; slot !== none; slot = this.pool.laneNext[slot]!) slots.push(slot);
    }
    this.lanes = this.#newLanes(count);
    const { lane, queued, phase, size } = this.table;
    for (let endpoint = 0 as EndpointIndex; endpoint < size; endpoint++) {
      if (!this.table.has(endpoint)) continue;
      lane[endpoint] = laneOf(endpoint);
      queued[endpoint] = 0;
      if (phase[endpoint] === Phase.ready || phase[endpoint] === Phase.confirmReady)
        this.laneOf(endpoint).queue(endpoint);
    }
    for (const slot of slots.sort((a, b) => this.pool.seq[a]! - this.pool.seq[b]!)) {
      this.laneOf(this.pool.endpoint[slot]! as EndpointIndex).append(slot);
    }
  }

  // --- events: observations --------------------------------------------------------------------------------------

  /** A source saw that the endpoint has this status. A status that it has already is no transition. */
  observe(endpoint: EndpointIndex, status: Status, source: Source, nowMs: number): Observed {
    const { known, desired } = this.table;
    desired[endpoint] = status;
    const before = known[endpoint]!;
    if (status === before) return 'unchanged';
    if (before === unknown && status === Status.removed && this.seeded) return 'unchanged'; // it has no key
    if (this.pool.size >= this.#options.pendingMax) return 'full';
    // Measured with Neutron: after a removal, `up` alone gives Nova no event; `down, up` does.
    if (before === Status.removed && status !== Status.down)
      this.accept(endpoint, Status.down, source, nowMs);
    this.accept(endpoint, status, source, nowMs, before === unknown && !this.seeded);
    return 'accepted';
  }

  /**
   * Whether the core needs to know this endpoint no longer, so that its number may be given to another: it is removed,
   * and has been for so long that what comes back under its name is new; nothing is under way or still to be covered.
   */
  forgettable(endpoint: EndpointIndex, nowMs: number): boolean {
    const { known, desired, phase, queued, committedSeq, committedAtMs } = this.table;
    if (!this.table.has(endpoint)) return false;
    const gone = (status: number): boolean => status === unknown || status === Status.removed;
    const lane = this.laneOf(endpoint);
    return (
      gone(known[endpoint]!) &&
      gone(desired[endpoint]!) &&
      phase[endpoint] === Phase.idle &&
      queued[endpoint] === 0 &&
      committedSeq[endpoint]! <= lane.ack &&
      lane.earlier.length === 0 &&
      nowMs - committedAtMs[endpoint]! > rememberRemovedMs
    );
  }

  /** The endpoint's number is free. */
  forget(endpoint: EndpointIndex): void {
    this.table.forget(endpoint);
  }

  // --- for the rest of the core ---------------------------------------------------------------------------------

  laneOf(endpoint: EndpointIndex): Lane {
    return this.lanes[this.table.lane[endpoint]!]!;
  }

  /** Gives the transition its seq, the journal and its place in the queue. */
  accept(endpoint: EndpointIndex, status: Status, source: Source, nowMs: number, initial = false): void {
    this.table.known[endpoint] = status;
    this.table.setAside[endpoint] = 0;
    const seq = this.nextSeq++;
    this.link(seq, endpoint, status, initial, nowMs);
    this.#options.append(seq, endpoint, status, source, initial);
  }

  /** Puts it at the end of its endpoint's queue and of its lane's list. */
  link(seq: number, endpoint: EndpointIndex, status: Status, initial: boolean, nowMs: number): void {
    const { head, tail, pending, acceptedAtMs, busyInResync } = this.table;
    const slot = this.pool.take(seq, endpoint, status, initial, nowMs);
    if (tail[endpoint] === none) head[endpoint] = slot;
    else this.pool.next[tail[endpoint]!] = slot;
    tail[endpoint] = slot;
    pending[endpoint]!++;
    acceptedAtMs[endpoint] = nowMs;
    busyInResync[endpoint] = this.resyncRun;
    this.laneOf(endpoint).append(slot);
    this.schedule.appended(endpoint, nowMs);
  }

  /** Takes out its oldest transition without sending it. */
  passOver(endpoint: EndpointIndex, nowMs: number): void {
    this.laneOf(endpoint).passOver(endpoint);
    this.schedule.passedOver(endpoint, nowMs);
  }

  /**
   * The cursors know seqs as high as this life's own: the journal was lost and the clock was set back. What this life
   * has accepted so far looks committed; it gets new seqs above.
   */
  goOnAbove(highest: number, nowMs: number): void {
    this.nextSeq = Math.max(this.nextSeq, highest + 1);
    const pool = this.pool;
    const slots: number[] = [];
    for (const lane of this.lanes) {
      for (let slot = lane.first; slot !== none; slot = pool.laneNext[slot]!) {
        if (pool.seq[slot]! >= this.firstSeq) slots.push(slot);
      }
    }
    for (const slot of slots.sort((a, b) => pool.seq[a]! - pool.seq[b]!)) {
      const endpoint = pool.endpoint[slot]! as EndpointIndex;
      pool.seq[slot] = this.nextSeq++;
      this.laneOf(endpoint).lastSeq = pool.seq[slot]!;
      const initial = pool.initial[slot] === 1;
      this.#options.append(pool.seq[slot]!, endpoint, pool.status[slot]! as Status, Source.resync, initial);
      if (this.table.head[endpoint] === slot) this.schedule.passedOver(endpoint, nowMs);
    }
    // Else the gap would look like so many transitions that are not durable yet, and feeders would wait for ever.
    this.firstSeq = highest + 1;
  }

  #newLanes(count: number): Lane[] {
    return Array.from(
      { length: count },
      (_, id) => new Lane(id, this.table, this.pool, this.#options.sackMax),
    );
  }
}
