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
import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';
import type { ClaimAnswer, TxnAnswer } from './answers.js';
import { backoffMs, claimBackoff, deniedRetryMs, laneBackoff } from './backoff.js';
import type { BatchLimits } from './batch.js';
import { parseClaim } from './claim.js';
import { type Cursor, covers, decodeCursor, highestSeq, sameBytes } from './cursor.js';
import type { Effect } from './effects.js';
import { Phase } from './endpoint-table.js';
import { type Attempt, kinds, type Lane } from './lane.js';
import { Limiter, type LimiterOptions } from './limiter.js';
import { none } from './pending.js';
import { type Observed, Queues, type QueuesOptions } from './queues.js';
import { beginResync, type Corrections, judge, seed } from './reconcile.js';
import type { ScheduleOptions } from './schedule.js';

/** What may change while it runs. */
export interface ReporterLimits {
  readonly txn: BatchLimits;
  readonly limits: LimiterOptions;
  readonly schedule: ScheduleOptions;
}

export interface ReporterOptions extends ReporterLimits, QueuesOptions {
  /** The first claim comes after a random part of this, so that a fleet that starts together does not claim together. */
  readonly startJitterMs: number;
  /** Uniform in [0, 1); for jitter alone. */
  readonly random: () => number;
}

/** How long after an outage final values are still put once more: a reader that lost its watch is blind so long. */
const outageEchoMs = 15_000;

export class Reporter {
  /** What is pending, and of whom: to be asked, and to be filled from the journal before the start. */
  readonly queues: Queues;
  readonly #options: ReporterOptions;
  #txnLimits: BatchLimits;
  readonly #limiter: Limiter;
  #effects: Effect[] = [];

  /** unclaimed: a claim is due at #claimAtMs. claiming: asked for. seeding: claimed, etcd's keys not known yet. */
  #state: 'unclaimed' | 'claiming' | 'seeding' | 'writing' | 'stopped' = 'unclaimed';
  #claim: Uint8Array = new Uint8Array();
  /** Null until the first poll. */
  #claimAtMs: number | null = null;
  #claimFailures = 0;
  #epoch = 0;
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
  readonly #mayFollow = (slot: number): boolean => this.queues.schedule.mayFollow(slot);

  constructor(options: ReporterOptions) {
    this.#options = options;
    this.#txnLimits = options.txn;
    this.#limiter = new Limiter(options.limits);
    this.queues = new Queues(options);
  }

  // --- what it can be asked -------------------------------------------------------------------------------------

  get lanesInflight(): number {
    return this.queues.lanes.filter((lane) => lane.inflight !== null).length;
  }

  /** The claim's value, as long as it is held. */
  get claim(): Uint8Array {
    return this.#claim;
  }

  get epoch(): number {
    return this.#epoch;
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

  /** Other limits from now on. What etcd's refusals have taught holds for the limits that were. */
  reconfigure({ txn, limits, schedule }: ReporterLimits, nowMs: number): void {
    this.#txnLimits = txn;
    this.#maxOpsLearned = Number.POSITIVE_INFINITY;
    this.#bytesMaxLearned = Number.POSITIVE_INFINITY;
    this.#limiter.reconfigure(limits, nowMs);
    this.queues.schedule.reconfigure(schedule);
  }

  // --- events: observations --------------------------------------------------------------------------------------

  /** A source saw that the endpoint has this status. A status that it has already is no transition. */
  observe(endpoint: EndpointIndex, status: Status, source: Source, nowMs: number): Observed {
    return this.queues.observe(endpoint, status, source, nowMs);
  }

  /** Every transition up to this seq is in the journal for good. */
  durable(seq: number, nowMs: number): void {
    this.queues.schedule.durable(seq, nowMs);
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
   * may only write).
   */
  seed(listed: Iterable<readonly [EndpointIndex, Status | null]> | null, nowMs: number): void {
    if (this.#state !== 'seeding') return;
    seed(this.queues, listed, nowMs);
    this.#state = 'writing';
  }

  /** A hint that somebody took the claim, or a doubt: have every lane ask etcd with its next transaction. */
  probe(): void {
    for (const lane of this.queues.lanes) lane.mustAdvance = true;
  }

  /** etcd was out of reach just now, as whoever watches something there has noticed. The next commit says that it is back. */
  away(): void {
    this.#outage = true;
  }

  // --- events: resync --------------------------------------------------------------------------------------------

  /** To be called before etcd's keys are listed. */
  beginResync(): void {
    this.#revisionAtList = this.#revision;
    beginResync(this.queues);
  }

  /**
   * What etcd had at `revision`; see judge(). Null for a list older than our own commits, which says nothing (a server
   * that was paused may answer so, and so does one that was restored).
   */
  resync(
    listed: ReadonlyMap<EndpointIndex, Status | null>,
    revision: number,
    inSync: boolean,
    nowMs: number,
  ): Corrections | null {
    if (this.#state !== 'writing') return null;
    if (revision < this.#revisionAtList) {
      this.probe();
      return null;
    }
    return judge(this.queues, listed, inSync, nowMs);
  }

  // --- events: answers -------------------------------------------------------------------------------------------

  /** etcd's answer to a lane's transaction; `attempt` is that of the send effect. */
  answered(laneId: number, attempt: number, answer: TxnAnswer, nowMs: number): void {
    const lane = this.queues.lanes[laneId];
    if (this.#state === 'stopped' || !lane) return;
    if (lane.successor?.number === attempt) this.#successorAnswered(lane, answer);
    const sent = lane.inflight;
    if (sent === null || sent.number !== attempt) return;
    switch (answer.kind) {
      case 'committed':
        this.#commit(lane, sent, answer.revision, false, nowMs);
        return;
      case 'conflict':
        this.#conflict(lane, answer, nowMs);
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
        this.#unwind(lane);
        for (const kind of kinds) {
          const concerned =
            sent.txn.endpoints.length === 0 || this.queues.table.kind[sent.txn.endpoints[0]!] === kind;
          if (concerned) lane.deniedUntilMs[kind] = nowMs + deniedRetryMs;
        }
        if (sent.txn.endpoints.length === 0) lane.notBeforeMs = nowMs + deniedRetryMs;
        this.#retryEffect(lane, 'denied', deniedRetryMs, answer.message);
        return;
      case 'invalid':
        this.#invalid(lane, sent, answer.message, nowMs);
        return;
      case 'notSent': // the one before was tried again meanwhile, and is committed
        lane.notBeforeMs = Number.NEGATIVE_INFINITY;
        return;
      default:
        unreachable(answer);
    }
  }

  /** Before its predecessor's: it has not gone, or whoever should have sent it does not know. */
  #successorAnswered(lane: Lane, answer: TxnAnswer): void {
    lane.handedOver = false;
    if (answer.kind !== 'notSent') {
      lane.successor!.unclear = true;
      return;
    }
    lane.unwindSuccessor();
    if (!lane.withdrawn) lane.notFollowed = lane.inflight!.number;
  }

  // --- effects ---------------------------------------------------------------------------------------------------

  /** All that is to be done now. Call it after events, and when an armed time has come. */
  poll(nowMs: number): Effect[] {
    if (this.#state !== 'stopped') {
      this.queues.schedule.takeDue(nowMs);
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
    const { length } = this.queues.lanes;
    // Where tokens are short, another lane is first each time.
    this.#firstLane = (this.#firstLane + 1) % length;
    for (let i = 0; i < length; i++) {
      const lane = this.queues.lanes[(this.#firstLane + i) % length]!;
      if (lane.notBeforeMs <= nowMs) {
        if (this.#limiter.nextAtMs(nowMs) > nowMs) return;
        const attempt = lane.inflight ?? lane.build(this.#claim, limits, nowMs);
        if (attempt === null) continue;
        this.#limiter.take(nowMs);
        lane.inflight = attempt;
        lane.notBeforeMs = waiting;
        this.#effects.push({ kind: 'send', txn: attempt.txn, attempt: attempt.number, after: null });
      }
      // Where the rate is limited, it is the token that a transaction waits for.
      if (lane.notBeforeMs === waiting && this.#limiter.rate === 0) this.#prepare(lane, limits, nowMs);
    }
  }

  /** What follows the transaction that is under way. */
  #prepare(lane: Lane, limits: BatchLimits, nowMs: number): void {
    const { inflight, successor } = lane;
    if (inflight === null || inflight.number === lane.notFollowed) return;
    if (inflight.unclear || lane.failures > 0) return; // it may not be the last try of that one
    if (successor !== null) {
      if (!lane.handedOver || lane.withdrawn || !lane.successorIsLate(nowMs)) return;
      lane.withdrawn = true;
      this.#effects.push({ kind: 'withdraw', lane: lane.id, attempt: successor.number });
      return;
    }
    const next = lane.buildSuccessor(this.#claim, limits, nowMs, this.#mayFollow);
    if (next === null) return;
    lane.successor = next;
    lane.handedOver = true;
    lane.withdrawn = false;
    this.#effects.push({ kind: 'send', txn: next.txn, attempt: next.number, after: inflight.number });
  }

  #arm(nowMs: number): void {
    let atMs = this.queues.schedule.earliestMs;
    if (this.#state === 'unclaimed' && this.#claimAtMs !== null) atMs = Math.min(atMs, this.#claimAtMs);
    if (this.#state === 'writing') {
      for (const lane of this.queues.lanes) {
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

  #batchLimits(): BatchLimits {
    const { maxOps, bytesMax, watchBytesMax } = this.#txnLimits;
    return {
      maxOps: Math.min(maxOps, this.#maxOpsLearned),
      bytesMax: Math.min(bytesMax, this.#bytesMaxLearned),
      watchBytesMax,
    };
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
    const journalBehind = first && highest > this.queues.restoredSeq;
    const setBack = this.queues.lanes.some((lane) => (cursors[lane.id]?.number ?? 0) < lane.number);
    for (const lane of this.queues.lanes)
      this.#adopt(lane, answer.cursors[lane.id] ?? null, cursors[lane.id] ?? null, nowMs);
    if (journalBehind) {
      if (highest >= this.queues.firstSeq) this.queues.goOnAbove(highest, nowMs);
      this.#effects.push({ kind: 'resync', reason: 'journalBehind' });
    }
    if (!first || setBack) this.#effects.push({ kind: 'resync', reason: 'restored' });
    this.#state = this.queues.seeded ? 'writing' : 'seeding';
  }

  /** The cursor that the claim's transaction returned is final: it decides what is committed. */
  #adopt(lane: Lane, value: Uint8Array | null, cursor: Cursor | null, nowMs: number): void {
    const applied = value === null ? undefined : lane.attempted(value);
    if (applied !== undefined) this.#commit(lane, applied, this.#revision, true, nowMs);
    this.#unwind(lane); // the rest was not, and never will be
    lane.failures = 0;
    lane.adopt(value, cursor?.number ?? 0, cursor?.ack ?? 0, cursor === null ? [] : [...cursor.sack.keys()]);
    if (cursor === null) return;
    for (const [endpoint, seq] of cursor.sack) {
      if (this.queues.table.has(endpoint))
        this.queues.table.committedSeq[endpoint] = Math.max(seq, this.queues.table.committedSeq[endpoint]!);
    }
    // Only what an earlier life left can be covered: the cursor of this life is known.
    for (let slot = lane.first; slot !== none && this.queues.pool.seq[slot]! <= this.queues.restoredSeq; ) {
      const next = this.queues.pool.laneNext[slot]!;
      const endpoint = this.queues.pool.endpoint[slot]! as EndpointIndex;
      if (covers(cursor, endpoint, this.queues.pool.seq[slot]!)) {
        lane.take(endpoint);
        this.queues.table.committedAtMs[endpoint] = nowMs; // it may have come just before the claim
        this.queues.schedule.passedOver(endpoint, nowMs);
        this.queues.schedule.unconfirmed(endpoint, nowMs);
      }
      slot = next;
    }
  }

  #commit(lane: Lane, attempt: Attempt, revision: number, recovered: boolean, nowMs: number): void {
    // It could only follow that one, whose revision nobody has told us: it is lower.
    if (attempt.after !== null) this.#commit(lane, attempt.after, revision, true, nowMs);
    // What counts on a cursor that etcd no longer has will never be applied.
    if (lane.inflight !== attempt) this.#unwind(lane);
    if (this.#outage) this.#etcdIsBack(nowMs);
    const outage = nowMs - this.#etcdBackAtMs < outageEchoMs;
    const { endpoints, statuses, cursorAfter } = attempt.txn;
    lane.commit(attempt);
    lane.failures = 0;
    // Its successor, where there is one, has just been sent.
    lane.notBeforeMs = lane.inflight !== null && lane.handedOver ? waiting : Number.NEGATIVE_INFINITY;
    lane.handedOver = false;
    lane.endpointsMax = Number.POSITIVE_INFINITY;
    this.#permitted(lane, endpoints[0], nowMs);
    this.#revision = Math.max(this.#revision, revision);
    const { builtAtMs } = attempt;
    const confirm = endpoints.map((endpoint, i) => {
      this.queues.table.busyInResync[endpoint] = this.queues.resyncRun;
      const confirming = attempt.slots[i] === none;
      return this.queues.schedule.committed(endpoint, statuses[i]!, confirming, outage, builtAtMs, nowMs);
    });
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

  #conflict(lane: Lane, answer: Extract<TxnAnswer, { kind: 'conflict' }>, nowMs: number): void {
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
    const applied = cursor === null ? undefined : lane.attempted(cursor.value);
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

  /** The attempt was refused before etcd proposed it: its transitions are free for another one, and its successor's are. */
  #unwind(lane: Lane): void {
    lane.unwind();
    lane.notBeforeMs = Number.NEGATIVE_INFINITY;
    lane.handedOver = false;
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
    this.#unwind(lane);
    const half = Math.floor(length / 2);
    if (limit === 'ops') this.#maxOpsLearned = Math.min(this.#maxOpsLearned, half + 1);
    else this.#bytesMaxLearned = Math.min(this.#bytesMaxLearned, Math.floor(this.#bytesOf(sent) / 2));
    this.#retryEffect(lane, 'tooLarge', 0, message);
  }

  #bytesOf(attempt: Attempt): number {
    return attempt.txn.endpoints.reduce(
      (sum, endpoint) => sum + this.queues.table.keyBytes[endpoint]! + 40,
      0,
    );
  }

  /** etcd will never take this transaction: find the operation that is to blame. */
  #invalid(lane: Lane, sent: Attempt, message: string, nowMs: number): void {
    const { length } = sent.txn.endpoints;
    if (length === 1) {
      this.#setAside(lane, sent, message, nowMs);
    } else if (length === 0) {
      this.#again(lane, 'invalid', message, nowMs);
    } else {
      this.#unwind(lane);
      lane.endpointsMax = Math.floor(length / 2);
      this.#retryEffect(lane, 'invalid', 0, message);
    }
  }

  /** A transition that etcd will never take must not hold up its lane (section 8.2). */
  #setAside(lane: Lane, sent: Attempt, reason: string, nowMs: number): void {
    const endpoint = sent.txn.endpoints[0]!;
    const status = sent.txn.statuses[0]!;
    const seq = sent.txn.seqs[0]!;
    this.#unwind(lane);
    lane.endpointsMax = Number.POSITIVE_INFINITY;
    if (Number.isNaN(seq)) this.queues.table.phase[endpoint] = Phase.idle;
    else this.queues.passOver(endpoint, nowMs);
    this.queues.table.setAside[endpoint] = 1;
    this.#effects.push({ kind: 'deadLetter', endpoint, status, seq, reason });
  }

  /** A commit shows that the lane's role has what it needs, for endpoints of that kind at least. */
  #permitted(lane: Lane, endpoint: EndpointIndex | undefined, nowMs: number): void {
    if (this.#denied === null) return;
    if (endpoint !== undefined)
      lane.deniedUntilMs[this.queues.table.kind[endpoint] as 0 | 1] = Number.NEGATIVE_INFINITY;
    const denied = this.queues.lanes.some((other) => other.deniedUntilMs.some((untilMs) => untilMs > nowMs));
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
