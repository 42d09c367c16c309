/** What the core knows of each endpoint, in columns by endpoint number. */
import type { EndpointIndex, EndpointKind } from '../endpoints/id.js';
import { none } from './pending.js';

/** The last accepted status of an endpoint of which nothing is known. */
export const unknown = 255;

/** Where an endpoint stands with its oldest pending transition. */
export const Phase = {
  /** Nothing pending. */
  idle: 0,
  /** Its head is not durable yet. */
  syncing: 1,
  /** Its head waits for the spacing to pass. */
  spacing: 2,
  /** Its head can go with the next batch. */
  ready: 3,
  /** Its head is in a transaction, or its confirming write is. */
  inflight: 4,
  /** Nothing pending; its final value is to be put once more at a set time. */
  confirming: 5,
  /** Its final value can be put once more with the next batch. */
  confirmReady: 6,
} as const;
export type Phase = (typeof Phase)[keyof typeof Phase];

export class EndpointTable {
  size = 0;
  /** The last accepted status. */
  known = new Uint8Array(0);
  /** The last status that a source of this life has told. */
  desired = new Uint8Array(0);
  phase = new Uint8Array(0);
  kind = new Uint8Array(0);
  /** How many of its oldest pending transitions are in transactions: up to two, the second in a successor (lane.ts). */
  sending = new Uint8Array(0);
  /** 1 while the endpoint stands in its lane's ready ring, in whatever phase: an entry may be out of date. */
  queued = new Uint8Array(0);
  /** 0: no confirming write due; 1: sent too close together; 2: sent around an outage. */
  confirm = new Uint8Array(0);
  /** 1: etcd would not take its last status. */
  setAside = new Uint8Array(0);
  lane = new Uint16Array(0);
  keyBytes = new Uint16Array(0);
  head = new Int32Array(0);
  tail = new Int32Array(0);
  pending = new Int32Array(0);
  /** The resync in whose course the endpoint was last busy: it says nothing about it. */
  busyInResync = new Int32Array(0);
  committedSeq = new Float64Array(0);
  committedAtMs = new Float64Array(0);
  /** When its last observation that made a transition came; for the latency of a confirming write. */
  acceptedAtMs = new Float64Array(0);
  /** How far apart its transitions are while it has a backlog: as its largest so far asks for. Infinity: it has none. */
  spacingMs = new Float64Array(0);

  has(endpoint: EndpointIndex): boolean {
    return endpoint < this.size && this.keyBytes[endpoint] !== 0;
  }

  /** (Re)starts an endpoint with nothing known. */
  add(endpoint: EndpointIndex, kind: EndpointKind, lane: number, keyBytes: number): void {
    if (endpoint >= this.known.length) this.#grow(endpoint + 1);
    this.size = Math.max(this.size, endpoint + 1);
    this.known[endpoint] = unknown;
    this.desired[endpoint] = unknown;
    this.phase[endpoint] = Phase.idle;
    this.kind[endpoint] = kind === 'workload' ? 0 : 1;
    this.sending[endpoint] = 0;
    this.queued[endpoint] = 0;
    this.confirm[endpoint] = 0;
    this.setAside[endpoint] = 0;
    this.lane[endpoint] = lane;
    this.keyBytes[endpoint] = keyBytes;
    this.head[endpoint] = none;
    this.tail[endpoint] = none;
    this.pending[endpoint] = 0;
    this.busyInResync[endpoint] = 0;
    this.committedSeq[endpoint] = 0;
    this.committedAtMs[endpoint] = Number.NEGATIVE_INFINITY;
    this.acceptedAtMs[endpoint] = 0;
    this.spacingMs[endpoint] = Number.POSITIVE_INFINITY;
  }

  forget(endpoint: EndpointIndex): void {
    this.keyBytes[endpoint] = 0;
    this.known[endpoint] = unknown;
  }

  #grow(size: number): void {
    const capacity = Math.max(64, 2 ** Math.ceil(Math.log2(size)));
    for (const name of uint8Columns) this[name] = widen(this[name], new Uint8Array(capacity));
    for (const name of uint16Columns) this[name] = widen(this[name], new Uint16Array(capacity));
    for (const name of int32Columns) this[name] = widen(this[name], new Int32Array(capacity));
    for (const name of float64Columns) this[name] = widen(this[name], new Float64Array(capacity));
  }
}

const uint8Columns = [
  'known',
  'desired',
  'phase',
  'kind',
  'sending',
  'queued',
  'confirm',
  'setAside',
] as const;
const uint16Columns = ['lane', 'keyBytes'] as const;
const int32Columns = ['head', 'tail', 'pending', 'busyInResync'] as const;
const float64Columns = ['committedSeq', 'committedAtMs', 'acceptedAtMs', 'spacingMs'] as const;

function widen<T extends Uint8Array | Uint16Array | Int32Array | Float64Array>(from: T, to: T): T {
  to.set(from);
  return to;
}
