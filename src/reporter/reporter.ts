/**
 * The pure core of flapd. It has no clock, no timers, no I/O and no randomness of its own: events and the time go
 * in, effects come out of poll(). src/daemon/ drives it in the real world, test/sim/ in a simulated one.
 *
 *     observe() ─► transition: a seq, the journal, the endpoint's queue
 *     durable() ─► its endpoint is ready (or waits for its spacing)      schedule.ts
 *     poll()    ─► each idle lane builds a batch and sends it            lane.ts, limiter.ts
 *     answered() ─► committed: taken out │ unclear: the same again │ refused: smaller, later, or set aside
 *
 * Times are monotonic milliseconds and never go back.
 */
import type { EndpointIndex, EndpointKind } from '../endpoints/id.js';
import { Source, Status } from '../endpoints/status.js';
import type { ClaimAnswer, TxnAnswer } from './answers.js';
import { backoffMs, claimBackoff, deniedRetryMs, laneBackoff } from './backoff.js';
import { parseClaim } from './claim.js';
import { type Cursor, covers, decodeCursor, highestSeq, sameBytes } from './cursor.js';
import type { Effect } from './effects.js';
import { EndpointTable, Phase, unknown } from './endpoint-table.js';
import { type Attempt, type BatchLimits, kinds, Lane } from './lane.js';
import { Limiter, type LimiterOptions } from './limiter.js';
import { none, PendingPool } from './pending.js';
import { Schedule, type ScheduleOptions } from './schedule.js';

/** What may change while it runs. */
export interface ReporterLimits {
  readonly txn: BatchLimits;
  readonly limits: LimiterOptions;
  readonly schedule: ScheduleOptions;
}

export interface ReporterOptions extends ReporterLimits {
  readonly lanes: number;
  /** How many endpoints of a lane may be committed beyond its oldest pending transition; see cursor.ts. */
  readonly sackMax: number;
  readonly pendingMax: number;
  /** The first claim comes after a random part of this, so that a fleet that starts together does not claim together. */
  readonly startJitterMs: number;
  /** Uniform in [0, 1); for jitter alone. */
  readonly random: () => number;
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

/** What comes back within this begins with down, since its reader remembers it as well. */
const rememberRemovedMs = 3_600_000;
/** How long after an outage final values are still put once more: a reader that lost its watch is blind so long. */
const outageEchoMs = 15_000;

export class Reporter {
  readonly #options: ReporterOptions;
  readonly #table = new EndpointTable();
  readonly #pool = new PendingPool();
  #txnLimits: BatchLimits;
  readonly #limiter: Limiter;
  readonly #schedule: Schedule;
  #lanes: Lane[];
  #effects: Effect[] = [];

  /** unclaimed: a claim is due at #claimAtMs. claiming: asked for. seeding: claimed, etcd's keys not known yet. */
  #state: 'unclaimed' | 'claiming' | 'seeding' | 'writing' | 'stopped' = 'unclaimed';
  #claim: Uint8Array = new Uint8Array();
  /** Null until the first poll. */
  #claimAtMs: number | null = null;
  #claimFailures = 0;
  #epoch = 0;
  #seeded = false;

  #nextSeq = 1;
  /** Up to here, transitions are from an earlier life of this journal. */
  #restoredSeq = 0;
  /** Of this life. */
  #firstSeq = 1;
  #resyncRun = 0;
  #revision = 0;
  /** #revision when the resync that is under way began. */
  #revisionAtList = 0;
  #firstLane = 0;
  /** Learned from etcd's refusals; Infinity: none yet. */
  #maxOpsLearned = Number.POSITIVE_INFINITY;
  #bytesMaxLearned = Number.POSITIVE_INFINITY;
  #outage = false;
  #etcdBackAtMs = Number.NEGATIVE_INFINITY;
  #denied: string | null = null;

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#txnLimits = options.txn;
    this.#limiter = new Limiter(options.limits);
    this.#lanes = this.#newLanes(options.lanes);
    this.#schedule = new Schedule(this.#table, this.#pool, options.schedule, (endpoint) =>
      this.#laneOf(endpoint).queue(endpoint),
    );
  }

  // --- what it can be asked -------------------------------------------------------------------------------------

  get pending(): number {
    return this.#pool.size;
  }

  get lanes(): number {
    return this.#lanes.length;
  }

  get lanesInflight(): number {
    return this.#lanes.filter((lane) => lane.inflight !== null).length;
  }

  /** The claim's value, as long as it is held. */
  get claim(): Uint8Array {
    return this.#claim;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** Of this life. */
  get firstSeq(): number {
    return this.#firstSeq;
  }

  get lastSeq(): number {
    return this.#nextSeq - 1;
  }

  /** The newest revision that a commit of ours has had. */
  get revision(): number {
    return this.#revision;
  }

  get state(): string {
    return this.#state;
  }

  /** Whether etcd took the last transaction, or the claim. */
  get etcdUp(): boolean {
    return (this.#state === 'writing' || this.#state === 'seeding') && !this.#outage;
  }

  /** The permission that etcd said is missing; null: none. */
  get denied(): string | null {
    return this.#denied;
  }

  /** Transactions a second allowed at present; 0: no limit. */
  get rate(): number {
    return this.#limiter.rate;
  }

  /** Every transition with a lower seq is settled. */
  get oldestPendingSeq(): number {
    let oldest = this.#nextSeq;
    for (const { first } of this.#lanes)
      if (first !== none) oldest = Math.min(oldest, this.#pool.seq[first]!);
    return oldest;
  }

  /** When the oldest pending transition was accepted; null: nothing is pending. */
  get oldestPendingMs(): number | null {
    let oldest: number | null = null;
    for (const { first } of this.#lanes) {
      if (first === none) continue;
      const acceptedAtMs = this.#pool.acceptedAtMs[first]!;
      if (oldest === null || acceptedAtMs < oldest) oldest = acceptedAtMs;
    }
    return oldest;
  }

  /** The last accepted status; undefined: nothing is known. */
  status(endpoint: EndpointIndex): Status | undefined {
    const status = this.#table.known[endpoint];
    return status === undefined || status === unknown ? undefined : (status as Status);
  }

  laneReports(): { lane: number; pending: number; inflight: boolean; failures: number; ack: number }[] {
    return this.#lanes.map((lane) => {
      let pending = 0;
      for (let slot = lane.first; slot !== none; slot = this.#pool.laneNext[slot]!) pending++;
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
    return this.#table.pending[endpoint] ?? 0;
  }

  // --- events: before the start ----------------------------------------------------------------------------------

  /** An endpoint has a number now. `keyBytes`: the length of its status key. */
  addEndpoint(endpoint: EndpointIndex, kind: EndpointKind, lane: number, keyBytes: number): void {
    this.#table.add(endpoint, kind, lane, keyBytes);
  }

  /** From the journal: the last status that was accepted of an endpoint. */
  restoreStatus(endpoint: EndpointIndex, status: Status, nowMs: number): void {
    this.#table.known[endpoint] = status;
    // When its last transition was sent is not known: it may have been a moment ago.
    this.#table.committedAtMs[endpoint] = nowMs;
  }

  /** From the journal, after restored(): the endpoint's last status still has to be put once more. */
  restoreUnconfirmed(endpoint: EndpointIndex, nowMs: number): void {
    this.#schedule.unconfirmed(endpoint, nowMs);
  }

  /** From the journal: a transition that may not be committed yet; in seq order. It is durable already. */
  restoreTransition(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    initial: boolean,
    nowMs: number,
  ): void {
    this.#link(seq, endpoint, status, initial, nowMs);
  }

  /** From the journal: the newest cursor known to be committed. etcd having an older one means that it was set back. */
  restoreCursor(laneId: number, value: Uint8Array): void {
    const lane = this.#lanes[laneId];
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
    this.#restoredSeq = lastSeq;
    this.#nextSeq = Math.max(lastSeq + 1, firstSeq);
    this.#firstSeq = this.#nextSeq;
    this.#schedule.durable(lastSeq, nowMs);
  }

  /**
   * What cursors just read mean to what the journal left, by lane: whether they cover all of it; the highest number of
   * a transaction, and the highest seq, that they or the journal know of.
   */
  review(values: readonly (Uint8Array | null)[]): { complete: boolean; number: number; highest: number } {
    const cursors = values.map((value) => (value === null ? null : decodeCursor(value)));
    let complete = true;
    for (const { first, id } of this.#lanes) {
      for (
        let slot = first;
        slot !== none && this.#pool.seq[slot]! <= this.#restoredSeq;
        slot = this.#pool.laneNext[slot]!
      ) {
        const cursor = cursors[id] ?? null;
        const endpoint = this.#pool.endpoint[slot]! as EndpointIndex;
        if (cursor === null || !covers(cursor, endpoint, this.#pool.seq[slot]!)) complete = false;
      }
    }
    const number = Math.max(
      0,
      ...cursors.map((cursor) => cursor?.number ?? 0),
      ...this.#lanes.map((lane) => lane.number),
    );
    const highest = Math.max(
      this.#restoredSeq,
      ...cursors.map((cursor) => (cursor === null ? 0 : highestSeq(cursor))),
    );
    return { complete, number, highest };
  }

  /** Another number of lanes, before the first claim: no transaction is under way yet. */
  setLanes(count: number, laneOf: (endpoint: EndpointIndex) => number): void {
    if (this.#epoch > 0) throw new Error('lanes cannot change while flapd writes');
    const slots: number[] = [];
    for (const lane of this.#lanes) {
      for (let slot = lane.first; slot !== none; slot = this.#pool.laneNext[slot]!) slots.push(slot);
    }
    this.#lanes = this.#newLanes(count);
    const { lane, queued, phase, size } = this.#table;
    for (let endpoint = 0 as EndpointIndex; endpoint < size; endpoint++) {
      if (!this.#table.has(endpoint)) continue;
      lane[endpoint] = laneOf(endpoint);
      queued[endpoint] = 0;
      if (phase[endpoint] === Phase.ready || phase[endpoint] === Phase.confirmReady)
        this.#laneOf(endpoint).queue(endpoint);
    }
    for (const slot of slots.sort((a, b) => this.#pool.seq[a]! - this.#pool.seq[b]!)) {
      this.#laneOf(this.#pool.endpoint[slot]! as EndpointIndex).append(slot);
    }
  }

  /** Other limits from now on. What etcd's refusals have taught holds for the limits that were. */
  reconfigure({ txn, limits, schedule }: ReporterLimits, nowMs: number): void {
    this.#txnLimits = txn;
    this.#maxOpsLearned = Number.POSITIVE_INFINITY;
    this.#bytesMaxLearned = Number.POSITIVE_INFINITY;
    this.#limiter.reconfigure(limits, nowMs);
    this.#schedule.reconfigure(schedule);
  }

  // --- events: observations --------------------------------------------------------------------------------------

  /** A source saw that the endpoint has this status. A status that it has already is no transition. */
  observe(endpoint: EndpointIndex, status: Status, source: Source, nowMs: number): Observed {
    const { known, desired } = this.#table;
    desired[endpoint] = status;
    const before = known[endpoint]!;
    if (status === before) return 'unchanged';
    if (before === unknown && status === Status.removed && this.#seeded) return 'unchanged'; // it has no key
    if (this.#pool.size >= this.#options.pendingMax) return 'full';
    // Measured with Neutron: after a removal, `up` alone gives Nova no event; `down, up` does.
    if (before === Status.removed && status !== Status.down)
      this.#accept(endpoint, Status.down, source, nowMs);
    this.#accept(endpoint, status, source, nowMs, before === unknown && !this.#seeded);
    return 'accepted';
  }

  /** Every transition up to this seq is in the journal for good. */
  durable(seq: number, nowMs: number): void {
    this.#schedule.durable(seq, nowMs);
  }

  /**
   * Whether the core needs to know this endpoint no longer, so that its number may be given to another: it is removed,
   * and has been for so long that what comes back under its name is new; nothing is under way or still to be covered.
   */
  forgettable(endpoint: EndpointIndex, nowMs: number): boolean {
    const { known, desired, phase, queued, committedSeq, committedAtMs } = this.#table;
    if (!this.#table.has(endpoint)) return false;
    const gone = (status: number): boolean => status === unknown || status === Status.removed;
    const lane = this.#laneOf(endpoint);
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
    this.#table.forget(endpoint);
  }

  // --- events: the claim -----------------------------------------------------------------------------------------

  claimAnswered(answer: ClaimAnswer, nowMs: number): void {
    if (this.#state !== 'claiming') return;
    switch (answer.kind) {
      case 'claimed':
        this.#claimed(answer, nowMs);
        return;
      case 'refused':
        this.#fenced(answer.message);
        return;
      case 'unclear': {
        this.#claimFailures++;
        this.#outage = true;
        if (answer.reason === 'denied') this.#denied = answer.message;
        const delayMs =
          answer.reason === 'denied'
            ? deniedRetryMs
            : backoffMs(this.#claimFailures, claimBackoff, this.#options.random());
        this.#state = 'unclaimed';
        this.#claimAtMs = nowMs + delayMs;
        this.#effects.push({
          kind: 'retry',
          lane: none,
          reason: answer.reason,
          delayMs,
          message: answer.message,
        });
        return;
      }
      default:
        unreachable(answer);
    }
  }

  /**
   * What etcd had under this host's status keys when the claim was taken. Null: it could not be listed (a role that
   * may only write). What was first seen of an endpoint before now and is just what etcd has is passed over.
   */
  seed(listed: Iterable<readonly [EndpointIndex, Status | null]> | null, nowMs: number): void {
    if (this.#state !== 'seeding') return;
    const { known, head, pending } = this.#table;
    const inEtcd = new Map<EndpointIndex, Status | null>(listed ?? []);
    for (const [endpoint, status] of inEtcd) {
      if (known[endpoint] !== unknown || status === null) continue;
      known[endpoint] = status;
    }
    if (listed !== null) {
      for (let endpoint = 0 as EndpointIndex; endpoint < this.#table.size; endpoint++) {
        const slot = pending[endpoint] === 0 ? none : head[endpoint]!;
        if (slot === none || this.#pool.initial[slot] === 0) continue;
        const status = inEtcd.has(endpoint) ? inEtcd.get(endpoint) : Status.removed;
        if (this.#pool.status[slot] === status) this.#passOver(endpoint, nowMs);
      }
    }
    this.#seeded = true;
    this.#state = 'writing';
  }

  /** A hint that somebody took the claim, or a doubt: have every lane ask etcd with its next transaction. */
  probe(): void {
    for (const lane of this.#lanes) lane.mustAdvance = true;
  }

  // --- events: resync --------------------------------------------------------------------------------------------

  /** To be called before etcd's keys are listed. */
  beginResync(): void {
    this.#resyncRun++;
    this.#revisionAtList = this.#revision;
    const { pending, phase, busyInResync, size } = this.#table;
    for (let endpoint = 0; endpoint < size; endpoint++) {
      if (pending[endpoint]! > 0 || phase[endpoint] === Phase.inflight)
        busyInResync[endpoint] = this.#resyncRun;
    }
  }

  /**
   * What etcd had at `revision`: null is an unreadable value. Queues what differs; an endpoint that was busy since
   * beginResync() is not judged, and neither is one whose last status etcd would not take. `inSync`: all sources have handed over what exists, so that a key of no known
   * endpoint is stale. Returns how many corrections of each sort were queued; null for a list older than our own
   * commits, which says nothing (a server that was paused may answer so, and so does one that was restored).
   */
  resync(
    listed: ReadonlyMap<EndpointIndex, Status | null>,
    revision: number,
    inSync: boolean,
    nowMs: number,
  ): { put: number; repaired: number; deleted: number } | null {
    if (this.#state !== 'writing') return null;
    if (revision < this.#revisionAtList) {
      this.probe();
      return null;
    }
    const { setAside, known, desired, pending, busyInResync, size } = this.#table;
    const corrections = { put: 0, repaired: 0, deleted: 0 };
    for (let endpoint = 0 as EndpointIndex; endpoint < size; endpoint++) {
      if (
        !this.#table.has(endpoint) ||
        setAside[endpoint] === 1 ||
        pending[endpoint]! > 0 ||
        busyInResync[endpoint] === this.#resyncRun
      )
        continue;
      if (desired[endpoint] === unknown) {
        // No source has said a word of it: what etcd has is left from before.
        if (!inSync || !listed.has(endpoint)) continue;
        this.#accept(endpoint, Status.removed, Source.resync, nowMs);
        corrections.deleted++;
        continue;
      }
      if (desired[endpoint] !== known[endpoint]) {
        // It was seen while the queues were full.
        if (this.observe(endpoint, desired[endpoint] as Status, Source.resync, nowMs) === 'accepted')
          corrections.put++;
        continue;
      }
      const has = listed.get(endpoint);
      const expected = known[endpoint] as Status;
      if (expected === Status.removed) {
        if (has === undefined || !inSync) continue;
        this.#accept(endpoint, Status.removed, Source.resync, nowMs);
        corrections.deleted++;
      } else if (has !== expected) {
        this.#accept(endpoint, expected, Source.resync, nowMs);
        corrections[has === undefined ? 'put' : 'repaired']++;
      }
    }
    return corrections;
  }

  // --- events: answers -------------------------------------------------------------------------------------------

  /** etcd's answer to a lane's transaction; `attempt` is that of the send effect. */
  answered(laneId: number, attempt: number, answer: TxnAnswer, nowMs: number): void {
    const lane = this.#lanes[laneId];
    const sent = lane?.inflight;
    if (this.#state === 'stopped' || !lane || !sent || sent.number !== attempt) return;
    switch (answer.kind) {
      case 'committed':
        this.#commit(lane, sent, answer.revision, false, nowMs);
        return;
      case 'conflict':
        this.#conflict(lane, sent, answer, nowMs);
        return;
      case 'unclear':
        sent.unclear = true;
        if (answer.reason !== 'worker' && answer.reason !== 'noSpace') this.#outage = true;
        if (answer.reason === 'timeout' || answer.reason === 'noSpace') this.#limiter.overloaded(nowMs);
        this.#again(lane, answer.reason, answer.message, nowMs);
        return;
      case 'overloaded':
        this.#limiter.overloaded(nowMs);
        this.#again(lane, 'overloaded', answer.message, nowMs);
        return;
      case 'unauthenticated':
        this.#again(lane, 'unauthenticated', answer.message, nowMs);
        return;
      case 'tooLarge':
        this.#tooLarge(lane, sent, answer.limit, answer.message, nowMs);
        return;
      case 'denied':
        this.#denied = answer.message;
        this.#unwind(lane, sent);
        for (const kind of kinds) {
          const concerned =
            sent.txn.endpoints.length === 0 || this.#table.kind[sent.txn.endpoints[0]!] === kind;
          if (concerned) lane.deniedUntilMs[kind] = nowMs + deniedRetryMs;
        }
        if (sent.txn.endpoints.length === 0) lane.notBeforeMs = nowMs + deniedRetryMs;
        this.#retryEffect(lane, 'denied', deniedRetryMs, answer.message);
        return;
      case 'invalid':
        this.#invalid(lane, sent, answer.message, nowMs);
        return;
      default:
        unreachable(answer);
    }
  }

  // --- effects ---------------------------------------------------------------------------------------------------

  /** All that is to be done now. Call it after events, and when an armed time has come. */
  poll(nowMs: number): Effect[] {
    if (this.#state !== 'stopped') {
      this.#schedule.takeDue(nowMs);
      this.#claimAtMs ??= nowMs + this.#options.startJitterMs * this.#options.random();
      if (this.#state === 'unclaimed' && this.#claimAtMs <= nowMs) {
        this.#state = 'claiming';
        this.#effects.push({ kind: 'claim', epoch: this.#epoch });
      }
      if (this.#state === 'writing') this.#send(nowMs);
      this.#arm(nowMs);
    }
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #send(nowMs: number): void {
    const limits = this.#batchLimits();
    const { length } = this.#lanes;
    // Where tokens are short, another lane is first each time.
    this.#firstLane = (this.#firstLane + 1) % length;
    for (let i = 0; i < length; i++) {
      const lane = this.#lanes[(this.#firstLane + i) % length]!;
      const again = lane.inflight;
      if (lane.notBeforeMs > nowMs) continue;
      if (this.#limiter.nextAtMs(nowMs) > nowMs) return;
      const attempt = again ?? lane.build(this.#claim, limits, nowMs);
      if (attempt === null) continue;
      this.#limiter.take(nowMs);
      lane.inflight = attempt;
      lane.notBeforeMs = waiting;
      this.#effects.push({ kind: 'send', txn: attempt.txn, attempt: attempt.number });
    }
  }

  #arm(nowMs: number): void {
    let atMs = this.#schedule.earliestMs;
    if (this.#state === 'unclaimed' && this.#claimAtMs !== null) atMs = Math.min(atMs, this.#claimAtMs);
    if (this.#state === 'writing') {
      for (const lane of this.#lanes) {
        if (lane.notBeforeMs > nowMs && lane.notBeforeMs !== waiting) atMs = Math.min(atMs, lane.notBeforeMs);
        for (const kind of kinds)
          if (lane.deniedUntilMs[kind] > nowMs) atMs = Math.min(atMs, lane.deniedUntilMs[kind]);
      }
      const tokenAtMs = this.#limiter.nextAtMs(nowMs);
      if (tokenAtMs > nowMs) atMs = Math.min(atMs, tokenAtMs);
    }
    if (atMs !== Number.POSITIVE_INFINITY) this.#effects.push({ kind: 'arm', atMs });
  }

  // --- inside ----------------------------------------------------------------------------------------------------

  #newLanes(count: number): Lane[] {
    return Array.from(
      { length: count },
      (_, id) => new Lane(id, this.#table, this.#pool, this.#options.sackMax),
    );
  }

  #laneOf(endpoint: EndpointIndex): Lane {
    return this.#lanes[this.#table.lane[endpoint]!]!;
  }

  #batchLimits(): BatchLimits {
    const { maxOps, bytesMax, watchBytesMax } = this.#txnLimits;
    return {
      maxOps: Math.min(maxOps, this.#maxOpsLearned),
      bytesMax: Math.min(bytesMax, this.#bytesMaxLearned),
      watchBytesMax,
    };
  }

  /** Gives the transition its seq, the journal and its place in the queue. */
  #accept(endpoint: EndpointIndex, status: Status, source: Source, nowMs: number, initial = false): void {
    this.#table.known[endpoint] = status;
    this.#table.setAside[endpoint] = 0;
    const seq = this.#nextSeq++;
    this.#link(seq, endpoint, status, initial, nowMs);
    this.#options.append(seq, endpoint, status, source, initial);
  }

  #link(seq: number, endpoint: EndpointIndex, status: Status, initial: boolean, nowMs: number): void {
    const { head, tail, pending, acceptedAtMs, busyInResync } = this.#table;
    const slot = this.#pool.take(seq, endpoint, status, initial, nowMs);
    if (tail[endpoint] === none) head[endpoint] = slot;
    else this.#pool.next[tail[endpoint]!] = slot;
    tail[endpoint] = slot;
    pending[endpoint]!++;
    acceptedAtMs[endpoint] = nowMs;
    busyInResync[endpoint] = this.#resyncRun;
    this.#laneOf(endpoint).append(slot);
    this.#schedule.appended(endpoint, nowMs);
  }

  #passOver(endpoint: EndpointIndex, nowMs: number): void {
    this.#laneOf(endpoint).passOver(endpoint);
    this.#schedule.passedOver(endpoint, nowMs);
  }

  #claimed(answer: Extract<ClaimAnswer, { kind: 'claimed' }>, nowMs: number): void {
    const first = this.#epoch === 0;
    this.#claim = answer.claim;
    this.#epoch = answer.epoch;
    this.#claimFailures = 0;
    this.#denied = null;
    this.#revision = answer.revision;
    if (this.#outage) this.#etcdIsBack(nowMs);
    const cursors = answer.cursors.map((value) => (value === null ? null : decodeCursor(value)));
    const highest = Math.max(0, ...cursors.map((cursor) => (cursor === null ? 0 : highestSeq(cursor))));
    const journalBehind = first && highest > this.#restoredSeq;
    const setBack = this.#lanes.some((lane) => (cursors[lane.id]?.number ?? 0) < lane.number);
    for (const lane of this.#lanes)
      this.#adopt(lane, answer.cursors[lane.id] ?? null, cursors[lane.id] ?? null, nowMs);
    if (journalBehind) {
      if (highest >= this.#firstSeq) this.#goOnAbove(highest, nowMs);
      this.#effects.push({ kind: 'resync', reason: 'journalBehind' });
    }
    if (!first || setBack) this.#effects.push({ kind: 'resync', reason: 'restored' });
    this.#state = this.#seeded ? 'writing' : 'seeding';
  }

  /** The cursor that the claim's transaction returned is final: it decides what is committed. */
  #adopt(lane: Lane, value: Uint8Array | null, cursor: Cursor | null, nowMs: number): void {
    const unsettled = lane.inflight === null ? lane.earlier : [lane.inflight, ...lane.earlier];
    const applied =
      value === null ? undefined : unsettled.find((attempt) => sameBytes(attempt.txn.cursorAfter, value));
    const { inflight } = lane;
    if (applied !== undefined) this.#commit(lane, applied, this.#revision, true, nowMs);
    else if (inflight !== null) this.#unwind(lane, inflight);
    lane.notBeforeMs = Number.NEGATIVE_INFINITY;
    lane.failures = 0;
    lane.adopt(value, cursor?.number ?? 0, cursor?.ack ?? 0, cursor === null ? [] : [...cursor.sack.keys()]);
    if (cursor === null) return;
    for (const [endpoint, seq] of cursor.sack) {
      if (this.#table.has(endpoint))
        this.#table.committedSeq[endpoint] = Math.max(seq, this.#table.committedSeq[endpoint]!);
    }
    // Only what an earlier life left can be covered: the cursor of this life is known.
    for (let slot = lane.first; slot !== none && this.#pool.seq[slot]! <= this.#restoredSeq; ) {
      const next = this.#pool.laneNext[slot]!;
      const endpoint = this.#pool.endpoint[slot]! as EndpointIndex;
      if (covers(cursor, endpoint, this.#pool.seq[slot]!)) {
        lane.take(endpoint);
        this.#table.committedAtMs[endpoint] = nowMs; // it may have come just before the claim
        this.#schedule.passedOver(endpoint, nowMs);
        this.#schedule.unconfirmed(endpoint, nowMs);
      }
      slot = next;
    }
  }

  /**
   * The cursors know seqs as high as this life's own: the journal was lost and the clock was set back. What this life
   * has accepted so far looks committed; it gets new seqs above.
   */
  #goOnAbove(highest: number, nowMs: number): void {
    this.#nextSeq = Math.max(this.#nextSeq, highest + 1);
    const pool = this.#pool;
    const slots: number[] = [];
    for (const lane of this.#lanes) {
      for (let slot = lane.first; slot !== none; slot = pool.laneNext[slot]!) {
        if (pool.seq[slot]! >= this.#firstSeq) slots.push(slot);
      }
    }
    for (const slot of slots.sort((a, b) => pool.seq[a]! - pool.seq[b]!)) {
      const endpoint = pool.endpoint[slot]! as EndpointIndex;
      pool.seq[slot] = this.#nextSeq++;
      this.#laneOf(endpoint).lastSeq = pool.seq[slot]!;
      const initial = pool.initial[slot] === 1;
      this.#options.append(pool.seq[slot]!, endpoint, pool.status[slot]! as Status, Source.resync, initial);
      if (this.#table.head[endpoint] === slot) this.#schedule.passedOver(endpoint, nowMs);
    }
    // Else the gap would look like so many transitions that are not durable yet, and feeders would wait for ever.
    this.#firstSeq = highest + 1;
  }

  #commit(lane: Lane, attempt: Attempt, revision: number, recovered: boolean, nowMs: number): void {
    if (this.#outage) this.#etcdIsBack(nowMs);
    const outage = nowMs - this.#etcdBackAtMs < outageEchoMs;
    const { endpoints, statuses, cursorAfter } = attempt.txn;
    const { inflight } = lane;
    lane.commit(attempt);
    lane.inflight = null;
    lane.failures = 0;
    lane.notBeforeMs = Number.NEGATIVE_INFINITY;
    lane.endpointsMax = Number.POSITIVE_INFINITY;
    this.#permitted(lane, endpoints[0], nowMs);
    this.#revision = Math.max(this.#revision, revision);
    const { builtAtMs } = attempt;
    const confirm = endpoints.map((endpoint, i) => {
      this.#table.busyInResync[endpoint] = this.#resyncRun;
      const confirming = attempt.slots[i] === none;
      return this.#schedule.committed(endpoint, statuses[i]!, confirming, outage, builtAtMs, nowMs);
    });
    if (inflight !== null && inflight !== attempt) this.#unwind(lane, inflight, new Set(endpoints));
    this.#effects.push({
      kind: 'committed',
      lane: lane.id,
      revision,
      recovered,
      cursor: cursorAfter,
      endpoints,
      statuses,
      seqs: attempt.txn.seqs,
      acceptedAtMs: attempt.acceptedAtMs,
      confirm,
    });
  }

  #conflict(
    lane: Lane,
    sent: Attempt,
    answer: Extract<TxnAnswer, { kind: 'conflict' }>,
    nowMs: number,
  ): void {
    if (this.#state !== 'writing') return; // a claim is under way: it settles every lane's transaction
    if (answer.claim === null || !sameBytes(answer.claim, this.#claim)) {
      const other = answer.claim === null ? null : parseClaim(answer.claim);
      // An older claim than ours, or none, means that etcd was set back: nobody else writes for this host.
      if (other !== null && other.epoch >= this.#epoch) {
        this.#fenced(
          `instance ${other.instance} on machine ${other.machine} holds the claim with epoch ${other.epoch}`,
        );
        return;
      }
      this.#reclaim(nowMs);
      return;
    }
    const { cursor } = answer;
    const applied =
      cursor === null
        ? undefined
        : [sent, ...lane.earlier].find((attempt) => sameBytes(attempt.txn.cursorAfter, cursor.value));
    if (applied === undefined || cursor === null) this.#reclaim(nowMs);
    else this.#commit(lane, applied, cursor.modRevision, true, nowMs);
  }

  /** etcd's state is not what it was: take the claim again, with a higher epoch, and go on from the cursors it has. */
  #reclaim(nowMs: number): void {
    this.#state = 'unclaimed';
    this.#claimAtMs = nowMs;
  }

  #fenced(by: string): void {
    this.#state = 'stopped';
    this.#effects.push({ kind: 'fenced', by });
  }

  /** The same transaction once more, after a while: the compare makes it safe. */
  #again(lane: Lane, reason: string, message: string, nowMs: number): void {
    lane.failures++;
    const delayMs = backoffMs(lane.failures, laneBackoff, this.#options.random());
    lane.notBeforeMs = nowMs + delayMs;
    this.#retryEffect(lane, reason, delayMs, message);
  }

  #retryEffect(lane: Lane, reason: string, delayMs: number, message: string): void {
    this.#effects.push({ kind: 'retry', lane: lane.id, reason, delayMs, message });
  }

  /** The attempt was refused before etcd proposed it: its transitions are free for another one. */
  #unwind(lane: Lane, attempt: Attempt, except: ReadonlySet<EndpointIndex> = new Set()): void {
    lane.inflight = null;
    lane.notBeforeMs = Number.NEGATIVE_INFINITY;
    // An earlier try of it may have been applied all the same.
    if (attempt.unclear) lane.earlier.push(attempt);
    for (const endpoint of attempt.txn.endpoints) if (!except.has(endpoint)) this.#schedule.unwound(endpoint);
    lane.unwind(attempt);
  }

  #tooLarge(lane: Lane, sent: Attempt, limit: 'ops' | 'bytes', message: string, nowMs: number): void {
    const { length } = sent.txn.endpoints;
    if (length <= 1) {
      if (limit === 'bytes' && length === 1) {
        this.#setAside(lane, sent, message, nowMs);
      } else {
        // One operation and the cursor are the least there is: only etcd's configuration can change that.
        this.#again(lane, 'tooLarge', message, nowMs);
      }
      return;
    }
    this.#unwind(lane, sent);
    const half = Math.floor(length / 2);
    if (limit === 'ops') this.#maxOpsLearned = Math.min(this.#maxOpsLearned, half + 1);
    else this.#bytesMaxLearned = Math.min(this.#bytesMaxLearned, Math.floor(this.#bytesOf(sent) / 2));
    this.#retryEffect(lane, 'tooLarge', 0, message);
  }

  #bytesOf(attempt: Attempt): number {
    return attempt.txn.endpoints.reduce((sum, endpoint) => sum + this.#table.keyBytes[endpoint]! + 40, 0);
  }

  /** etcd will never take this transaction: find the operation that is to blame. */
  #invalid(lane: Lane, sent: Attempt, message: string, nowMs: number): void {
    const { length } = sent.txn.endpoints;
    if (length === 1) {
      this.#setAside(lane, sent, message, nowMs);
    } else if (length === 0) {
      this.#again(lane, 'invalid', message, nowMs);
    } else {
      this.#unwind(lane, sent);
      lane.endpointsMax = Math.floor(length / 2);
      this.#retryEffect(lane, 'invalid', 0, message);
    }
  }

  /** A transition that etcd will never take must not hold up its lane (section 8.2). */
  #setAside(lane: Lane, sent: Attempt, reason: string, nowMs: number): void {
    const endpoint = sent.txn.endpoints[0]!;
    const status = sent.txn.statuses[0]!;
    const seq = sent.txn.seqs[0]!;
    this.#unwind(lane, sent);
    lane.endpointsMax = Number.POSITIVE_INFINITY;
    if (Number.isNaN(seq)) this.#table.phase[endpoint] = Phase.idle;
    else this.#passOver(endpoint, nowMs);
    this.#table.setAside[endpoint] = 1;
    this.#effects.push({ kind: 'deadLetter', endpoint, status, seq, reason });
  }

  /** A commit shows that the lane's role has what it needs, for endpoints of that kind at least. */
  #permitted(lane: Lane, endpoint: EndpointIndex | undefined, nowMs: number): void {
    if (this.#denied === null) return;
    if (endpoint !== undefined)
      lane.deniedUntilMs[this.#table.kind[endpoint] as 0 | 1] = Number.NEGATIVE_INFINITY;
    const denied = this.#lanes.some((other) => other.deniedUntilMs.some((untilMs) => untilMs > nowMs));
    if (!denied) this.#denied = null;
  }

  #etcdIsBack(nowMs: number): void {
    this.#outage = false;
    this.#etcdBackAtMs = nowMs;
  }
}

/** notBeforeMs of a lane whose transaction is under way: an answer sets it free. */
const waiting = Number.POSITIVE_INFINITY;

function unreachable(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
