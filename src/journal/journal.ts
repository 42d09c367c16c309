/**
 * The write-ahead log of transitions not yet known to be committed (docs/design.md, section 7).
 * A transition is accepted once the journal says that it is durable, and is sent only then.
 */
import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';

/** Carrier counters of an interface, kept so that flaps missed while flapd was not running are found at the next start. */
export interface InterfaceCounters {
  readonly ifindex: number;
  readonly name: string;
  readonly running: boolean;
  readonly upCount: number;
  readonly downCount: number;
}

/** What the journal held when it was opened. */
export interface Recovered {
  /** Which key each endpoint number stands for. */
  readonly endpoints: ReadonlyMap<EndpointIndex, string>;
  /** The last status accepted of each endpoint, committed or not. */
  readonly statuses: ReadonlyMap<EndpointIndex, Status>;
  /** The newest cursor known to be committed, by lane. */
  readonly cursors: ReadonlyMap<number, Uint8Array>;
  readonly counters: readonly InterfaceCounters[];
  /** Endpoints whose last status was committed, and was to be put once more. */
  readonly unconfirmed: readonly EndpointIndex[];
  readonly lastSeq: number;
  /**
   * Calls back with every transition that is not known to be settled, oldest first: the caller knows the cursors.
   * Streams from the files; to be called before the first append.
   */
  forEach(
    callback: (
      seq: number,
      endpoint: EndpointIndex,
      status: Status,
      source: Source,
      observedAtUs: number,
      initial: boolean,
    ) => void,
  ): void;
}

export interface Journal {
  readonly recovered: Recovered;
  /** Every append up to this seq is durable. */
  readonly durableSeq: number;
  /** Whether it still takes appends of sources that can wait: false at its size limit or on a full disk. */
  readonly accepting: boolean;
  readonly bytes: number;
  /** Of a torn tail that was cut when it was opened; 0: none. */
  readonly cutBytes: number;
  /** Names an endpoint's number; must come before its first append. */
  nameEndpoint(endpoint: EndpointIndex, key: string): void;
  /**
   * `initial`: the first sight of an endpoint of which nothing is known yet; no transition, should etcd turn out to
   * have that status.
   */
  append(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    source: Source,
    observedAtUs: number,
    initial: boolean,
  ): void;
  /**
   * A lane's cursor is committed in etcd: what it covers need not be sent again. `seqs[i]` is NaN for a confirming
   * write; `confirm[i]`: one is still due.
   */
  committed(
    lane: number,
    cursor: Uint8Array,
    revision: number,
    endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
    confirm: readonly boolean[],
  ): void;
  counters(counters: InterfaceCounters): void;
  /** Every transition below this seq is settled: committed, or given up. What is older may be deleted. */
  settled(oldestPendingSeq: number): void;
  /** Resolves when all that was appended is durable. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Called on the main thread. */
export interface JournalListener {
  /** durableSeq has grown. */
  durable(seq: number): void;
  /** accepting has changed. */
  accepting(accepting: boolean, why: string): void;
  /** The journal cannot go on (EIO): the process must end with exit code 74. */
  failed(error: Error): void;
  /** One fdatasync took that long; for metrics. */
  synced(seconds: number, bytes: number): void;
}
