import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';
import type { InterfaceCounters, Journal, JournalListener, Recovered } from './journal.js';

const nothing: Recovered = {
  endpoints: new Map(),
  statuses: new Map(),
  cursors: new Map(),
  counters: [],
  unconfirmed: [],
  lastSeq: 0,
  forEach: () => undefined,
};

/** A journal that keeps nothing: what is pending lives in the queues alone and ends with the process. */
export class MemoryJournal implements Journal {
  readonly recovered = nothing;
  readonly accepting = true;
  readonly bytes = 0;
  readonly cutBytes = 0;
  durableSeq = 0;
  readonly #listener: JournalListener;

  constructor(listener: JournalListener) {
    this.#listener = listener;
  }

  nameEndpoint(_endpoint: EndpointIndex, _key: string): void {}

  append(
    seq: number,
    _endpoint: EndpointIndex,
    _status: Status,
    _source: Source,
    _observedAtUs: number,
  ): void {
    this.durableSeq = seq;
    this.#listener.durable(seq);
  }

  committed(
    _lane: number,
    _cursor: Uint8Array,
    _revision: number,
    _endpoints: readonly EndpointIndex[],
    _seqs: readonly number[],
    _confirm: readonly boolean[],
  ): void {}

  counters(_counters: InterfaceCounters): void {}

  settled(_oldestPendingSeq: number): void {}

  async flush(): Promise<void> {}

  async close(): Promise<void> {}
}
