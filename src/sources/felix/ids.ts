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

/**
 * The numbers of ids by their bytes as they come: the hot path makes no string and no object to know an endpoint again.
 * Of a fixed size. An id for which there is no room takes another one's place, which is then asked for anew.
 */
export class IdCache {
  readonly #hashes: Uint32Array;
  readonly #endpoints: Int32Array;
  readonly #keys: (Uint8Array | undefined)[];
  readonly #mask: number;
  #victim = 0;

  /** `slots`: a power of two, of at least twice as many as there are ids in use. */
  constructor(slots: number) {
    this.#hashes = new Uint32Array(slots);
    this.#endpoints = new Int32Array(slots);
    this.#keys = new Array<Uint8Array | undefined>(slots).fill(undefined);
    this.#mask = slots - 1;
  }

  get(bytes: Uint8Array, start: number, end: number): EndpointIndex | undefined {
    const hash = hashOf(bytes, start, end);
    for (let i = 0; i < ways; i++) {
      const slot = (hash + i) & this.#mask;
      if (this.#hashes[slot] === hash && equal(this.#keys[slot], bytes, start, end))
        return this.#endpoints[slot] as EndpointIndex;
    }
    return undefined;
  }

  set(bytes: Uint8Array, start: number, end: number, endpoint: EndpointIndex): void {
    if (end - start > idBytesMax) return;
    const hash = hashOf(bytes, start, end);
    let slot = (hash + (this.#victim++ % ways)) & this.#mask;
    for (let i = 0; i < ways; i++) {
      const other = (hash + i) & this.#mask;
      if (this.#keys[other] !== undefined) continue;
      slot = other;
      break;
    }
    this.#hashes[slot] = hash;
    this.#endpoints[slot] = endpoint;
    this.#keys[slot] = Uint8Array.prototype.slice.call(bytes, start, end); // a Buffer's own slice() would be a view
  }

  clear(): void {
    this.#keys.fill(undefined);
  }
}

/** FNV-1a over four bytes at a time, then mixed, since a slot is the low bits alone. */
function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = 0x811c9dc5;
  let at = start;
  for (; at + 4 <= end; at += 4) {
    const word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    hash = Math.imul(hash ^ word, 0x01000193);
    hash ^= hash >>> 15;
  }
  for (; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

function equal(key: Uint8Array | undefined, bytes: Uint8Array, start: number, end: number): boolean {
  if (key === undefined || key.length !== end - start) return false;
  for (let i = 0; i < key.length; i++) if (key[i] !== bytes[start + i]) return false;
  return true;
}
