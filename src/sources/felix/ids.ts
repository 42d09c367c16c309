/**
 * Endpoint ids as Felix's messages carry them: WorkloadEndpointID {orchestrator_id 2, workload_id 3, endpoint_id 4} and
 * HostEndpointID {endpoint_id 2} (Calico's felix/proto/felixbackend.proto).
 */
import type { EndpointId, EndpointIndex, EndpointKind } from '../../endpoints/id.js';
import { bytesField, Reader } from '../../wire/protobuf.js';

/** Throws a DecodeError. Parts that are missing are empty: no status key can hold such an id. */
export function decodeId(kind: EndpointKind, bytes: Uint8Array): EndpointId {
  const reader = new Reader(bytes);
  const parts = ['', '', ''];
  while (!reader.done) {
    const field = reader.tag();
    const part = (field >>> 3) - 2;
    if ((field & 7) === 2 && part >= 0 && part < parts.length) parts[part] = reader.string();
    else reader.skip(field);
  }
  const [first, workload, endpoint] = parts as [string, string, string];
  return kind === 'host' ? { kind, endpoint: first } : { kind, orchestrator: first, workload, endpoint };
}

/** As the field 1 that every message about an endpoint has. */
export function encodeId(id: EndpointId): Uint8Array {
  return id.kind === 'host'
    ? bytesField(1, bytesField(2, id.endpoint))
    : bytesField(1, bytesField(2, id.orchestrator), bytesField(3, id.workload), bytesField(4, id.endpoint));
}

/** An id is looked for in so many slots, no more, whatever a feeder makes of its ids. */
const ways = 8;
/** Longer than any id that a status key can hold. */
const idBytesMax = 4096;
/** Of OpenStack's ids, about: room for that many bytes of each. */
const idBytes = 128;
/** So much of an id's end tells it from nearly all others: OpenStack's ends with a UUID, Kubernetes' with a pod's name and `eth0`. */
const hashedBytes = 40;
const roomBytesMin = 64 * 1024;

/** In a slot: the hash, the endpoint, and where the id's bytes begin and end. */
const slotWords = 4;

/**
 * The numbers of ids by their bytes as they come: the hot path makes no string and no object to know an endpoint again.
 * Of a limited size: an id for which there is no slot takes another one's, and where there is no room for an id's bytes,
 * all are forgotten. What is forgotten is asked for anew.
 *
 * Slots lie in one array, and the bytes of all ids in another, since what costs under load is to fetch memory.
 */
export class IdCache {
  readonly #slots: Int32Array;
  readonly #mask: number;
  readonly #roomBytesMax: number;
  #room = new DataView(new ArrayBuffer(roomBytesMin));
  /** From 1 on: so no id ends at 0, and a slot that says so is free. */
  #used = 1;
  #victim = 0;
  /** Of the bytes that were asked for last: many ids come in one chunk. */
  #bytes: Uint8Array = new Uint8Array();
  #view: DataView = new DataView(new ArrayBuffer(0));

  /** `slots`: a power of two, of at least twice as many as there are ids in use. */
  constructor(slots: number) {
    this.#slots = new Int32Array(slots * slotWords);
    this.#mask = slots - 1;
    this.#roomBytesMax = Math.max(roomBytesMin, slots * idBytes);
  }

  get(bytes: Uint8Array, start: number, end: number): EndpointIndex | undefined {
    const view = this.#viewOf(bytes);
    const hash = hashOf(view, start, end);
    const slots = this.#slots;
    for (let i = 0; i < ways; i++) {
      const slot = ((hash + i) & this.#mask) * slotWords;
      if (slots[slot] !== hash) continue;
      const at = slots[slot + 2]!;
      const length = slots[slot + 3]! - at;
      if (length === end - start && equal(this.#room, at, view, start, length))
        return slots[slot + 1] as EndpointIndex;
    }
    return undefined;
  }

  set(bytes: Uint8Array, start: number, end: number, endpoint: EndpointIndex): void {
    const length = end - start;
    if (length > idBytesMax) return;
    if (!this.#makeRoom(length)) this.clear();
    const slots = this.#slots;
    const hash = hashOf(this.#viewOf(bytes), start, end);
    let slot = ((hash + (this.#victim++ % ways)) & this.#mask) * slotWords;
    for (let i = 0; i < ways; i++) {
      const other = ((hash + i) & this.#mask) * slotWords;
      if (slots[other + 3] !== 0) continue;
      slot = other;
      break;
    }
    const at = this.#used;
    this.#used += length;
    new Uint8Array(this.#room.buffer).set(bytes.subarray(start, end), at);
    slots[slot] = hash;
    slots[slot + 1] = endpoint;
    slots[slot + 2] = at;
    slots[slot + 3] = this.#used;
  }

  clear(): void {
    this.#slots.fill(0);
    this.#used = 1;
  }

  /** False: there is none. */
  #makeRoom(length: number): boolean {
    const { buffer, byteLength } = this.#room;
    if (this.#used + length <= byteLength) return true;
    if (byteLength >= this.#roomBytesMax) return false;
    const larger = new Uint8Array(2 * byteLength);
    larger.set(new Uint8Array(buffer));
    this.#room = new DataView(larger.buffer);
    return true;
  }

  #viewOf(bytes: Uint8Array): DataView {
    if (this.#bytes !== bytes) {
      this.#bytes = bytes;
      this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    }
    return this.#view;
  }
}

/** FNV-1a over four bytes at a time of an id's end, then mixed, since a slot is the low bits alone. */
function hashOf(view: DataView, start: number, end: number): number {
  let hash = 0x811c9dc5 ^ (end - start);
  let at = Math.max(start, end - hashedBytes);
  for (; at + 4 <= end; at += 4) {
    hash = Math.imul(hash ^ view.getInt32(at, true), 0x01000193);
    hash ^= hash >>> 15;
  }
  for (; at < end; at++) hash = Math.imul(hash ^ view.getUint8(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return hash ^ (hash >>> 13);
}

/** Whether so many bytes are the same here and there. */
function equal(one: DataView, oneAt: number, other: DataView, otherAt: number, length: number): boolean {
  let i = 0;
  for (; i + 4 <= length; i += 4)
    if (one.getInt32(oneAt + i, true) !== other.getInt32(otherAt + i, true)) return false;
  for (; i < length; i++) if (one.getUint8(oneAt + i) !== other.getUint8(otherAt + i)) return false;
  return true;
}
