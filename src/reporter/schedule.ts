/**
 * When an endpoint's next transition may go: once it is durable, and not sooner after the one before than its
 * reader can follow (docs/design.md, section 9). And when its final value is put once more.
 *
 * Times are monotonic milliseconds. Spacing counts from the moment a commit was known, not from the sending:
 * what an outage held back for a minute has otherwise no distance left when it lands.
 */
import type { EndpointIndex } from '../endpoints/id.js';
import { Status } from '../endpoints/status.js';
import { Deadlines } from './deadlines.js';
import { type EndpointTable, Phase } from './endpoint-table.js';
import { none, type PendingPool } from './pending.js';

export interface ScheduleOptions {
  /** Two transitions of one endpoint are this far apart; 0: no spacing. */
  readonly endpointDelayMs: number;
  /** ... but never so far that a backlog takes longer than this. */
  readonly endpointCatchUpMs: number;
  readonly confirm: boolean;
  readonly confirmAfterMs: number;
  readonly confirmAfterOutageMs: number;
}

/** Below this distance a reader that keeps only the latest value may have ended with the older one. */
const closeTogetherMs = 1000;
/** Of the catch-up, for the distances; the rest is for the transactions between them. */
export const catchUpShare = 0.8;

export class Schedule {
  readonly #table: EndpointTable;
  readonly #pool: PendingPool;
  #options: ScheduleOptions;
  readonly #deadlines = new Deadlines();
  /** Endpoints whose head waits for the journal. */
  #syncing: EndpointIndex[] = [];
  #durableSeq = 0;
  /** Called with each endpoint that became ready or confirmReady. */
  readonly #onReady: (endpoint: EndpointIndex) => void;

  constructor(
    table: EndpointTable,
    pool: PendingPool,
    options: ScheduleOptions,
    onReady: (endpoint: EndpointIndex) => void,
  ) {
    this.#table = table;
    this.#pool = pool;
    this.#options = options;
    this.#onReady = onReady;
  }

  /** Other options for what is decided from now on: who waits already goes on waiting. */
  reconfigure(options: ScheduleOptions): void {
    this.#options = options;
  }

  get earliestMs(): number {
    return this.#deadlines.earliest;
  }

  /** A transition was added at the end of the endpoint's queue. */
  appended(endpoint: EndpointIndex, nowMs: number): void {
    const { phase, pending } = this.#table;
    switch (phase[endpoint]) {
      case Phase.confirming:
        this.#deadlines.delete(endpoint); // the new transition says what the confirming write would have said
        this.#headChanged(endpoint, nowMs);
        break;
      case Phase.idle:
      case Phase.confirmReady:
        this.#headChanged(endpoint, nowMs);
        break;
      case Phase.spacing:
        // The spacing shrinks with the backlog; only a doubling moves it enough to be worth the heap's while.
        if ((pending[endpoint]! & (pending[endpoint]! - 1)) === 0) this.#headChanged(endpoint, nowMs);
        break;
      default: // its turn comes when the head has gone
    }
  }

  /** Everything up to this seq is durable. */
  durable(seq: number, nowMs: number): void {
    this.#durableSeq = seq;
    const syncing = this.#syncing;
    if (syncing.length === 0) return;
    this.#syncing = [];
    for (const endpoint of syncing) {
      if (this.#table.phase[endpoint] === Phase.syncing) this.#headChanged(endpoint, nowMs);
    }
  }

  /**
   * The endpoint's head, or its confirming write, was committed and taken out: at some time between `sentAtMs` and now.
   * `outage`: etcd was away just now. Returns whether its reader may miss it, so that a confirming write is due.
   */
  committed(
    endpoint: EndpointIndex,
    status: Status,
    confirming: boolean,
    outage: boolean,
    sentAtMs: number,
    nowMs: number,
  ): boolean {
    const table = this.#table;
    if (!confirming) {
      const close = sentAtMs - table.committedAtMs[endpoint]! < closeTogetherMs;
      table.confirm[endpoint] = outage ? 2 : close ? 1 : 0;
    } else {
      table.confirm[endpoint] = 0;
    }
    table.committedAtMs[endpoint] = nowMs;
    const due = table.confirm[endpoint] !== 0 && this.#confirms(endpoint, status);
    if (table.head[endpoint] === none) table.spacingMs[endpoint] = Number.POSITIVE_INFINITY;
    if (table.sending[endpoint]! > 0) {
      // its next one is in the transaction that follows
    } else if (table.head[endpoint] !== none) {
      this.#headChanged(endpoint, nowMs);
    } else if (due) {
      this.#confirmLater(endpoint, nowMs);
    } else {
      table.phase[endpoint] = Phase.idle;
    }
    return due;
  }

  /**
   * From the journal: an earlier life committed the endpoint's status, or may have, and did not live to put it once
   * more. How long its reader was blind then is not known.
   */
  unconfirmed(endpoint: EndpointIndex, nowMs: number): void {
    const { head, phase, known, confirm } = this.#table;
    if (head[endpoint] !== none || phase[endpoint] !== Phase.idle) return;
    if (!this.#confirms(endpoint, known[endpoint]!)) return;
    confirm[endpoint] = 2;
    this.#confirmLater(endpoint, nowMs);
  }

  #confirms(endpoint: EndpointIndex, status: number): boolean {
    return this.#options.confirm && this.#table.kind[endpoint] === 0 && status !== Status.removed;
  }

  #confirmLater(endpoint: EndpointIndex, nowMs: number): void {
    const { confirmAfterMs, confirmAfterOutageMs } = this.#options;
    const afterMs = this.#table.confirm[endpoint] === 2 ? confirmAfterOutageMs : confirmAfterMs;
    this.#table.phase[endpoint] = Phase.confirming;
    this.#deadlines.set(endpoint, nowMs + afterMs);
  }

  /** The endpoint's head was passed over without being sent. */
  passedOver(endpoint: EndpointIndex, nowMs: number): void {
    if (this.#table.phase[endpoint] === Phase.spacing) this.#deadlines.delete(endpoint);
    if (this.#table.head[endpoint] === none) this.#table.phase[endpoint] = Phase.idle;
    else this.#headChanged(endpoint, nowMs);
  }

  /** Whether this transition may go the moment that its endpoint's one before is committed. */
  mayFollow(slot: number): boolean {
    return this.#options.endpointDelayMs === 0 && this.#pool.seq[slot]! <= this.#durableSeq;
  }

  takeDue(nowMs: number): void {
    for (
      let item = this.#deadlines.takeDue(nowMs);
      item !== undefined;
      item = this.#deadlines.takeDue(nowMs)
    ) {
      const endpoint = item as EndpointIndex;
      const { phase } = this.#table;
      phase[endpoint] = phase[endpoint] === Phase.confirming ? Phase.confirmReady : Phase.ready;
      this.#onReady(endpoint);
    }
  }

  #headChanged(endpoint: EndpointIndex, nowMs: number): void {
    const table = this.#table;
    if (this.#pool.seq[table.head[endpoint]!]! > this.#durableSeq) {
      table.phase[endpoint] = Phase.syncing;
      this.#syncing.push(endpoint);
      return;
    }
    const { endpointDelayMs, endpointCatchUpMs } = this.#options;
    if (endpointDelayMs > 0) {
      // Kept until the backlog is gone: one that grew again as it shrinks would take three times the catch-up.
      const spacingMs = Math.min(
        endpointDelayMs,
        table.spacingMs[endpoint]!,
        (catchUpShare * endpointCatchUpMs) / table.pending[endpoint]!,
      );
      table.spacingMs[endpoint] = spacingMs;
      const readyAtMs = table.committedAtMs[endpoint]! + spacingMs;
      if (readyAtMs > nowMs) {
        table.phase[endpoint] = Phase.spacing;
        this.#deadlines.set(endpoint, readyAtMs);
        return;
      }
      if (table.phase[endpoint] === Phase.spacing) this.#deadlines.delete(endpoint);
    }
    table.phase[endpoint] = Phase.ready;
    this.#onReady(endpoint);
  }
}
