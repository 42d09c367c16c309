/**
 * Every pending transition of the host, in columns instead of objects: 34 bytes each, so that a million of
 * them (etcd away for an hour of storms) fit in a few dozen megabytes and cost the garbage collector nothing.
 *
 * A slot is in two lists at once: its endpoint's queue (first in, first out) and its lane's, in seq order.
 * The head of a lane's list is the oldest transition not committed, which is what the cursor's ack is made of.
 */
import type { EndpointIndex } from '../endpoints/id.js';
import type { Status } from '../endpoints/status.js';

/** No slot. */
export const none = -1;

const capacityMin = 1024;

export class PendingPool {
  size = 0;
  seq = new Float64Array(capacityMin);
  /** Monotonic milliseconds. */
  acceptedAtMs = new Float64Array(capacityMin);
  endpoint = new Int32Array(capacityMin);
  /** The next slot of the same endpoint; of a free slot: the next free one. */
  next = new Int32Array(capacityMin);
  laneNext = new Int32Array(capacityMin);
  lanePrevious = new Int32Array(capacityMin);
  status = new Uint8Array(capacityMin);
  /** 1: the first thing ever seen of its endpoint, before etcd could be asked what it has. */
  initial = new Uint8Array(capacityMin);
  #free = none;
  /** Slots from here on were never used. */
  #fresh = 0;

  take(seq: number, endpoint: EndpointIndex, status: Status, initial: boolean, acceptedAtMs: number): number {
    let slot = this.#free;
    if (slot !== none) {
      this.#free = this.next[slot]!;
    } else {
      if (this.#fresh === this.seq.length) this.#grow();
      slot = this.#fresh++;
    }
    this.seq[slot] = seq;
    this.acceptedAtMs[slot] = acceptedAtMs;
    this.endpoint[slot] = endpoint;
    this.next[slot] = none;
    this.laneNext[slot] = none;
    this.lanePrevious[slot] = none;
    this.status[slot] = status;
    this.initial[slot] = initial ? 1 : 0;
    this.size++;
    return slot;
  }

  /** A released slot has no seq: an attempt that still names it can tell. */
  release(slot: number): void {
    this.seq[slot] = none;
    this.next[slot] = this.#free;
    this.#free = slot;
    this.size--;
    if (this.size === 0) this.#reset();
  }

  /** A backlog's memory goes back as soon as the backlog is gone. */
  #reset(): void {
    this.#free = none;
    this.#fresh = 0;
    if (this.seq.length > 64 * capacityMin) this.#resize(capacityMin);
  }

  #grow(): void {
    this.#resize(this.seq.length * 2);
  }

  #resize(capacity: number): void {
    const used = Math.min(this.#fresh, capacity);
    this.seq = copy(this.seq, new Float64Array(capacity), used);
    this.acceptedAtMs = copy(this.acceptedAtMs, new Float64Array(capacity), used);
    this.endpoint = copy(this.endpoint, new Int32Array(capacity), used);
    this.next = copy(this.next, new Int32Array(capacity), used);
    this.laneNext = copy(this.laneNext, new Int32Array(capacity), used);
    this.lanePrevious = copy(this.lanePrevious, new Int32Array(capacity), used);
    this.status = copy(this.status, new Uint8Array(capacity), used);
    this.initial = copy(this.initial, new Uint8Array(capacity), used);
  }
}

function copy<T extends Float64Array | Int32Array | Uint8Array>(from: T, to: T, used: number): T {
  to.set(from.subarray(0, used));
  return to;
}
