/** What goes into one transaction: endpoint by endpoint, within the limits of etcd and of those who watch. */
import type { EndpointIndex } from '../endpoints/id.js';
import { Status } from '../endpoints/status.js';
import type { EndpointTable } from './endpoint-table.js';
import { none, type PendingPool } from './pending.js';

export interface BatchLimits {
  /** Operations of a transaction, the cursor's among them. */
  readonly maxOps: number;
  readonly bytesMax: number;
  /** Bytes of the answer by which etcd's JSON gateway tells a watcher of it; 0: no limit. */
  readonly watchBytesMax: number;
}

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
/** Endpoints picked for one transaction, within its limits. */
export class Batch {
  readonly picked: EndpointIndex[] = [];
  readonly endpointsMax: number;
  readonly #limits: BatchLimits;
  readonly #table: EndpointTable;
  readonly #pool: PendingPool;
  #bytes = 0;
  #watchBytes = watchAnswerBytes;
  #refused = false;

  constructor(limits: BatchLimits, endpointsMax: number, table: EndpointTable, pool: PendingPool) {
    this.#limits = limits;
    this.endpointsMax = Math.max(1, Math.min(limits.maxOps - 1, endpointsMax));
    this.#table = table;
    this.#pool = pool;
  }

  /** Nothing more fits. */
  get full(): boolean {
    return this.#refused || this.picked.length >= this.endpointsMax;
  }

  /** Its transition in this slot; `none`: its confirming write. False where it does not fit any more; the first one always does. */
  add(endpoint: EndpointIndex, slot: number): boolean {
    const { keyBytes, kind, known } = this.#table;
    const bytes = keyBytes[endpoint]! + opOverheadBytes;
    const status = (slot === none ? known[endpoint] : this.#pool.status[slot]) as Status;
    const watchBytes =
      kind[endpoint] === 0
        ? watchEventBytes + 4 * Math.ceil(keyBytes[endpoint]! / 3) + watchValueBytes[status]
        : 0;
    const { bytesMax, watchBytesMax } = this.#limits;
    const full =
      this.picked.length >= this.endpointsMax ||
      this.#bytes + bytes > bytesMax ||
      (watchBytesMax > 0 && this.#watchBytes + watchBytes > watchBytesMax);
    if (full && this.picked.length > 0) {
      this.#refused = true;
      return false;
    }
    this.picked.push(endpoint);
    this.#bytes += bytes;
    this.#watchBytes += watchBytes;
    return true;
  }
}
