/**
 * What the records say, taken together: the state that a checkpoint holds and that a restart needs. Recovery reads it
 * out of the files, and the writer keeps it up with what it has written, by the same methods. So a checkpoint never
 * knows of a transition that is not in the files before it: had it the status of one that a crash then took, the
 * transition would look as if it had been seen already.
 */
import type { EndpointIndex } from '../endpoints/id.js';
import { Status } from '../endpoints/status.js';
import type { InterfaceCounters } from './journal.js';
import type { BlockBuilder, RecordHandler } from './records.js';

const unknown = 255;
/** Interfaces come and go with new indexes for ever. Beyond this, those whose counters changed longest ago are let go. */
export const countersMax = 32_768;

export class JournalState {
  readonly names: (string | undefined)[] = [];
  readonly cursors = new Map<number, Uint8Array>();
  readonly counters = new Map<number, InterfaceCounters>();
  lastSeq = 0;
  /** Every transition with a lower seq is settled. */
  settledSeq = 0;
  /** By endpoint. */
  #statuses = new Uint8Array(256).fill(unknown);
  #lastSeqs = new Float64Array(256);
  /** A confirming write is due. Of no use to a checkpoint: by the next one it has been put. */
  readonly #unconfirmed = new Set<EndpointIndex>();

  readonly handler: RecordHandler = {
    transition: (seq, endpoint, status) => {
      if (endpoint >= this.#statuses.length) this.#grow(endpoint);
      this.#statuses[endpoint] = status;
      this.#lastSeqs[endpoint] = seq;
      if (seq > this.lastSeq) this.lastSeq = seq;
    },
    name: (endpoint, key) => {
      this.names[endpoint] = key;
    },
    committed: (lane, cursor, _revision, _atUs, endpoints, _seqs, confirm) => {
      this.cursors.set(lane, cursor);
      endpoints.forEach((endpoint, i) => {
        if (confirm[i]) this.#unconfirmed.add(endpoint);
        else this.#unconfirmed.delete(endpoint);
      });
    },
    counters: (counters) => {
      this.counters.delete(counters.ifindex); // set again, it is the newest
      this.counters.set(counters.ifindex, counters);
      if (this.counters.size > countersMax) this.counters.delete(this.counters.keys().next().value!);
    },
    status: (endpoint, status) => {
      if (endpoint >= this.#statuses.length) this.#grow(endpoint);
      this.#statuses[endpoint] = status;
    },
    lastSeq: (seq) => {
      this.lastSeq = Math.max(this.lastSeq, seq);
    },
    settled: (seq) => {
      this.settledSeq = Math.max(this.settledSeq, seq);
    },
  };

  status(endpoint: EndpointIndex): Status | undefined {
    const status = this.#statuses[endpoint];
    return status === undefined || status === unknown ? undefined : (status as Status);
  }

  get unconfirmed(): readonly EndpointIndex[] {
    return [...this.#unconfirmed];
  }

  lastSeqOf(endpoint: EndpointIndex): number {
    return this.#lastSeqs[endpoint] ?? 0;
  }

  /** Adds all of it to a block, but for the names and statuses of endpoints that `forgotten` says are not needed. */
  writeTo(block: BlockBuilder, forgotten: (endpoint: EndpointIndex) => boolean): void {
    for (let i = 0; i < this.names.length; i++) {
      const name = this.names[i];
      const endpoint = i as EndpointIndex;
      if (name === undefined || forgotten(endpoint)) continue;
      block.name(endpoint, name);
      const status = this.status(endpoint);
      if (status !== undefined) block.status(endpoint, status);
    }
    for (const [lane, cursor] of this.cursors) block.committed(lane, cursor, 0, 0, [], [], []);
    for (const counters of this.counters.values()) block.counters(counters);
    block.settled(this.settledSeq);
    block.setLastSeq(this.lastSeq);
  }

  /** It is removed from etcd, and nothing pending is of it: it may never be seen again. */
  isGone(endpoint: EndpointIndex): boolean {
    return this.status(endpoint) === Status.removed && this.lastSeqOf(endpoint) < this.settledSeq;
  }

  #grow(endpoint: EndpointIndex): void {
    const length = Math.max(this.#statuses.length * 2, endpoint + 1);
    const statuses = new Uint8Array(length).fill(unknown);
    statuses.set(this.#statuses);
    this.#statuses = statuses;
    const lastSeqs = new Float64Array(length);
    lastSeqs.set(this.#lastSeqs);
    this.#lastSeqs = lastSeqs;
  }
}
