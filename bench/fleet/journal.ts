/**
 * The journal of a simulated host: what is accepted is durable at once, and it outlives the host, as the real one on disk
 * does (hundreds of real ones would measure this machine's disk). It is also the account that etcd's history is held
 * against.
 */
import type { EndpointIndex } from '../../src/endpoints/id.js';
import type { Source, Status } from '../../src/endpoints/status.js';
import type { Journal, JournalListener, Recovered } from '../../src/journal/journal.js';

export class HostJournal implements Journal {
  readonly accepting = true;
  readonly bytes = 0;
  readonly cutBytes = 0;
  durableSeq = 0;
  /** By endpoint: each status that was accepted, in order. */
  readonly transitions: Status[][] = [];
  confirmations = 0;
  readonly #keys = new Map<EndpointIndex, string>();
  readonly #cursors = new Map<number, Uint8Array>();
  #listener: JournalListener | null = null;

  /** A new life: only to be begun when nothing is pending, since pending transitions are not kept. */
  open(listener: JournalListener): this {
    this.#listener = listener;
    return this;
  }

  get recovered(): Recovered {
    return {
      endpoints: new Map(this.#keys),
      statuses: new Map(
        [...this.#keys.keys()].map((endpoint) => [endpoint, this.transitions[endpoint]!.at(-1)!]),
      ),
      cursors: new Map(this.#cursors),
      counters: [],
      unconfirmed: [],
      lastSeq: this.durableSeq,
      forEach: () => undefined,
    };
  }

  get keys(): ReadonlyMap<EndpointIndex, string> {
    return this.#keys;
  }

  nameEndpoint(endpoint: EndpointIndex, key: string): void {
    this.#keys.set(endpoint, key);
    this.transitions[endpoint] ??= [];
  }

  append(seq: number, endpoint: EndpointIndex, status: Status, _source: Source): void {
    this.transitions[endpoint]!.push(status);
    this.durableSeq = seq;
    this.#listener!.durable(seq);
  }

  committed(
    lane: number,
    cursor: Uint8Array,
    _revision: number,
    _endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
  ): void {
    this.#cursors.set(lane, cursor);
    for (const seq of seqs) if (Number.isNaN(seq)) this.confirmations++;
  }

  counters(): void {}

  settled(): void {}

  async flush(): Promise<void> {}

  async close(): Promise<void> {}
}
