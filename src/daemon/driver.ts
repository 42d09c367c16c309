/**
 * Drives the pure core in the real world: events and the time go in, effects are carried out. All on the main thread.
 * Whatever happens within one turn of the event loop goes to the core before it is asked what to do, which is what
 * fills batches under load and costs an idle daemon nothing.
 */
import type { Etcd3 } from 'etcd3';
import type { EndpointIndex } from '../endpoints/id.js';
import { laneOf } from '../endpoints/key.js';
import type { EndpointRegistry } from '../endpoints/registry.js';
import type { Source, Status } from '../endpoints/status.js';
import { type ClaimOutcome, type ClaimRequest, changeLanes, takeClaim } from '../etcd/claim.js';
import type { TxnEncoder } from '../etcd/encoding.js';
import type { WorkerPool } from '../etcd/pool.js';
import type { Journal } from '../journal/journal.js';
import { encodeCursor } from '../reporter/cursor.js';
import type { Committed, Effect, Txn } from '../reporter/effects.js';
import type { Observed } from '../reporter/queues.js';
import { Reporter, type ReporterLimits, type ReporterOptions } from '../reporter/reporter.js';

export interface DriverEvents {
  accepted(source: Source, status: Status): void;
  committed(effect: Committed, nowMs: number): void;
  txn(answer: string, durationMs: number, waitedMs: number, ops: number): void;
  retry(reason: string, message: string, delayMs: number): void;
  deadLetter(endpoint: EndpointIndex, status: Status, reason: string): void;
  /** The claim is taken, with this epoch, at this revision. */
  claimed(epoch: number, revision: number): void;
  fenced(by: string): void;
  /** etcd's keys are to be compared with what is known. */
  resync(reason: string): void;
  /** Everything up to this seq is durable. */
  durable(seq: number): void;
  /** The core has been asked for what to do: a good moment to look at how full its queues are. */
  polled(): void;
}

type Claimed = Extract<ClaimOutcome, { kind: 'claimed' }>;

export interface ClaimIdentity {
  readonly claimKey: string;
  readonly cursorKey: (lane: number) => string;
  readonly instance: string;
  readonly machine: string;
  readonly startedAt: string;
  readonly take: boolean;
}

export interface DriverOptions {
  readonly reporter: Omit<ReporterOptions, 'append' | 'random'>;
  readonly registry: EndpointRegistry;
  readonly encoder: TxnEncoder;
  readonly pool: WorkerPool;
  readonly identity: ClaimIdentity;
  /** The client of the moment: it may be opened anew. */
  readonly client: () => Etcd3;
  readonly events: DriverEvents;
}

export class Driver {
  readonly reporter: Reporter;
  readonly #options: DriverOptions;
  #journal: Journal | null = null;
  #observedAtUs = 0;
  #durableSeq = 0;
  #durableTold = 0;
  #scheduled = false;
  #timer: NodeJS.Timeout | null = null;
  #timerAtMs = Number.POSITIVE_INFINITY;
  #stopped = false;
  /** That the workers know of. */
  #rate: number;
  #burst: number;

  constructor(options: DriverOptions) {
    this.#options = options;
    this.#rate = options.reporter.limits.txnsPerSecond;
    this.#burst = options.reporter.limits.burst;
    this.reporter = new Reporter({
      ...options.reporter,
      random: Math.random,
      append: (seq, endpoint, status, source, initial) => {
        this.#journal!.append(seq, endpoint, status, source, this.#observedAtUs, initial);
        options.events.accepted(source, status);
      },
    });
  }

  /** Before anything else: what an earlier life left in the journal. */
  recover(journal: Journal, nowMs = performance.now()): void {
    this.#journal = journal;
    const { recovered } = journal;
    const { registry } = this.#options;
    for (const [endpoint, key] of recovered.endpoints) {
      if (registry.restore(endpoint, key)) this.introduce(endpoint);
    }
    for (const [lane, value] of recovered.cursors) this.reporter.queues.restoreCursor(lane, value);
    for (const [endpoint, status] of recovered.statuses) {
      if (registry.has(endpoint)) this.reporter.queues.restoreStatus(endpoint, status, nowMs);
    }
    // Some of these are committed: the cursors that come with the claim tell which.
    recovered.forEach((seq, endpoint, status, _source, _observedAtUs, initial) => {
      if (registry.has(endpoint))
        this.reporter.queues.restoreTransition(seq, endpoint, status, initial, nowMs);
    });
    this.reporter.queues.restored(recovered.lastSeq, Date.now() * 1000, nowMs);
    for (const endpoint of recovered.unconfirmed) {
      if (registry.has(endpoint)) this.reporter.queues.restoreUnconfirmed(endpoint, nowMs);
    }
    this.#durableSeq = recovered.lastSeq;
  }

  /** An endpoint has got its number: the registry's onNew. */
  introduce(endpoint: EndpointIndex): void {
    const { registry } = this.#options;
    const key = registry.key(endpoint);
    this.reporter.queues.addEndpoint(
      endpoint,
      registry.kind(endpoint),
      laneOf(key, this.reporter.queues.lanes.length),
      Buffer.byteLength(key),
    );
  }

  start(): void {
    this.pollSoon();
  }

  observe(endpoint: EndpointIndex, status: Status, source: Source, observedAtUs: number): Observed {
    this.#observedAtUs = observedAtUs;
    const observed = this.reporter.observe(endpoint, status, source, performance.now());
    if (observed === 'accepted') this.pollSoon();
    return observed;
  }

  /** From the journal's listener. */
  durable(seq: number): void {
    this.#durableSeq = seq;
    this.pollSoon();
  }

  /** What etcd has under this host's keys; see Reporter.seed(). */
  seed(listed: Iterable<readonly [EndpointIndex, Status | null]> | null): void {
    this.reporter.seed(listed, performance.now());
    this.pollSoon();
  }

  reconfigure(limits: ReporterLimits): void {
    this.reporter.reconfigure(limits, performance.now());
    this.#burst = limits.limits.burst;
    this.#shareRate();
    this.pollSoon();
  }

  beginResync(): void {
    this.reporter.beginResync();
  }

  resync(
    listed: ReadonlyMap<EndpointIndex, Status | null>,
    revision: number,
    inSync: boolean,
  ): ReturnType<Reporter['resync']> {
    this.#observedAtUs = Date.now() * 1000;
    const corrections = this.reporter.resync(listed, revision, inSync, performance.now());
    this.pollSoon();
    return corrections;
  }

  /** The claim may have been taken over: the next transactions tell. */
  probe(): void {
    this.reporter.probe();
    this.pollSoon();
  }

  /** etcd could not be reached by another way than that of the transactions. */
  away(): void {
    this.reporter.away();
  }

  stop(): void {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  pollSoon(): void {
    if (this.#scheduled || this.#stopped) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#poll();
    });
  }

  #poll(): void {
    if (this.#stopped) return;
    const nowMs = performance.now();
    if (this.#durableSeq > this.#durableTold) {
      this.#durableTold = this.#durableSeq;
      this.reporter.durable(this.#durableSeq, nowMs);
      this.#options.events.durable(this.#durableSeq);
    }
    for (const effect of this.reporter.poll(nowMs)) this.#carryOut(effect, nowMs);
    if (this.reporter.rate !== this.#rate) this.#shareRate();
    this.#options.events.polled();
  }

  #carryOut(effect: Effect, nowMs: number): void {
    const { events } = this.#options;
    switch (effect.kind) {
      case 'arm':
        this.#arm(effect.atMs, nowMs);
        return;
      case 'send':
        void this.#send(effect.txn, effect.attempt, effect.after);
        return;
      case 'withdraw':
        this.#options.pool.withdraw(effect.lane, effect.attempt);
        return;
      case 'committed':
        this.#journal!.committed(
          effect.lane,
          effect.cursor,
          effect.revision,
          effect.endpoints,
          effect.seqs,
          effect.confirm,
        );
        this.#journal!.settled(this.reporter.queues.oldestPendingSeq);
        events.committed(effect, nowMs);
        return;
      case 'claim':
        void this.#claim(effect.epoch);
        return;
      case 'retry':
        events.retry(effect.reason, effect.message, effect.delayMs);
        return;
      case 'deadLetter':
        events.deadLetter(effect.endpoint, effect.status, effect.reason);
        return;
      case 'resync':
        events.resync(effect.reason);
        return;
      case 'fenced':
        events.fenced(effect.by);
        return;
    }
  }

  /** Neither of the two rejects: the pool and takeClaim() answer with values. */
  async #send(txn: Txn, attempt: number, after: number | null): Promise<void> {
    const { pool, encoder, events } = this.#options;
    const turn = { lane: txn.lane, attempt, after };
    const { answer, durationMs, waitedMs } = await pool.run(turn, encoder.encode(txn));
    if (answer.kind !== 'notSent') {
      const kind = answer.kind === 'unclear' ? answer.reason : answer.kind;
      events.txn(kind, durationMs, waitedMs, txn.endpoints.length);
    }
    this.reporter.answered(txn.lane, attempt, answer, performance.now());
    this.pollSoon();
  }

  async #claim(epoch: number): Promise<void> {
    const { identity, client, events } = this.#options;
    const { lanes } = this.#options.reporter;
    const request = { ...identity, lanes, epoch };
    let answer = await takeClaim(client(), request);
    if (answer.kind === 'claimed' && answer.lanes !== lanes && epoch === 0)
      answer = await this.#changeLanes(request, answer);
    if (answer.kind === 'claimed') this.#setLanes(answer.lanes);
    this.reporter.claimAnswered(answer, performance.now());
    if (answer.kind === 'claimed') events.claimed(answer.epoch, answer.revision);
    this.pollSoon();
  }

  /** The core's bucket has another rate: the workers' gates hold that one. */
  #shareRate(): void {
    this.#rate = this.reporter.rate;
    this.#options.pool.setRate({ txnsPerSecond: this.#rate, burst: this.#burst });
  }

  /**
   * The claim was taken over from a flapd with another number of lanes, and cursors say nothing to another number. With
   * nothing left from an earlier life, new ones are written; else the old number serves until the next start.
   */
  async #changeLanes(request: ClaimRequest, claimed: Claimed): Promise<ClaimOutcome> {
    this.#setLanes(claimed.lanes);
    const { complete, number, highest } = this.reporter.queues.review(claimed.cursors);
    if (!complete) return claimed;
    const cursors = Array.from({ length: request.lanes }, () => encodeCursor(number + 1, highest, [], []));
    return changeLanes(this.#options.client(), request, claimed, cursors);
  }

  #setLanes(lanes: number): void {
    const { registry } = this.#options;
    if (lanes !== this.reporter.queues.lanes.length)
      this.reporter.queues.setLanes(lanes, (endpoint) => laneOf(registry.key(endpoint), lanes));
  }

  #arm(atMs: number, nowMs: number): void {
    if (this.#timer !== null && this.#timerAtMs <= atMs) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.pollSoon();
      },
      Math.max(0, Math.ceil(atMs - nowMs)),
    );
  }
}
