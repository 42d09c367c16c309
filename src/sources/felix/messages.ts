/**
 * What a dataplane tells Felix (FromDataplane of Calico's felix/proto/felixbackend.proto), as far as it matters here:
 *
 *     FromDataplane  process_status_update 3, host_endpoint_status_update 4, host_endpoint_status_remove 5,
 *                    workload_endpoint_status_update 6, workload_endpoint_status_remove 7, sequence_number 8,
 *                    dataplane_in_sync 10
 *     updates        id 1, status 2 {status 1}; removes: id 1
 *     WorkloadEndpointID  orchestrator_id 2, workload_id 3, endpoint_id 4; HostEndpointID  endpoint_id 2
 *     ProcessStatusUpdate iso_timestamp 1, uptime 2
 *
 * Everything else is skipped. And the one message that flapd writes back: ToDataplane with only sequence_number 15.
 */
import type { EndpointId, EndpointIndex } from '../../endpoints/id.js';
import { Status, statusFromValue, statusName } from '../../endpoints/status.js';
import { bytesField, DecodeError, Reader, varintField } from '../../wire/protobuf.js';

const tag = {
  processStatus: (3 << 3) | 2,
  hostUpdate: (4 << 3) | 2,
  hostRemove: (5 << 3) | 2,
  workloadUpdate: (6 << 3) | 2,
  workloadRemove: (7 << 3) | 2,
  sequenceNumber: 8 << 3,
  inSync: (10 << 3) | 2,
  id: (1 << 3) | 2,
  status: (2 << 3) | 2,
} as const;

/** What one frame said, in place: one such object serves a whole connection. */
export interface Decoded {
  kind: 'status' | 'inSync' | 'processStatus' | 'other';
  endpoint: EndpointIndex;
  status: Status;
  /** Of the frame; 0: none. */
  sequenceNumber: number;
}

/** Ids kept with the number they stand for; beyond it, the oldest half goes. */
const cachedIdsMax = 65_536;

/** Decodes FromDataplane messages. An id is looked up by its bytes, so that a frame costs one small string. */
export class FromDataplaneDecoder {
  readonly #intern: (id: EndpointId) => EndpointIndex;
  readonly #known = new Map<string, EndpointIndex>();
  readonly #message = new Reader();
  readonly #inner = new Reader();
  readonly #decoded: Decoded = {
    kind: 'other',
    endpoint: 0 as EndpointIndex,
    status: Status.removed,
    sequenceNumber: 0,
  };

  /** `intern` may throw an InvalidIdError, which decode() passes on. */
  constructor(intern: (id: EndpointId) => EndpointIndex) {
    this.#intern = intern;
  }

  /** Numbers may stand for other endpoints from now on. */
  forgetNumbers(): void {
    this.#known.clear();
  }

  /** The result is overwritten by the next call. Throws a DecodeError. */
  decode(bytes: Uint8Array): Readonly<Decoded> {
    const decoded = this.#decoded;
    decoded.kind = 'other';
    decoded.sequenceNumber = 0;
    const reader = this.#message.reset(bytes);
    while (!reader.done) {
      const field = reader.tag();
      switch (field) {
        case tag.workloadUpdate:
        case tag.workloadRemove:
        case tag.hostUpdate:
        case tag.hostRemove:
          this.#decodeStatus(bytes, field);
          break;
        case tag.sequenceNumber:
          decoded.sequenceNumber = reader.varint();
          break;
        case tag.inSync:
          reader.skip(field);
          decoded.kind = 'inSync';
          break;
        case tag.processStatus:
          reader.skip(field);
          decoded.kind = 'processStatus';
          break;
        default:
          reader.skip(field);
      }
    }
    return decoded;
  }

  #decodeStatus(bytes: Uint8Array, field: number): void {
    const workload = field === tag.workloadUpdate || field === tag.workloadRemove;
    const removed = field === tag.workloadRemove || field === tag.hostRemove;
    const end = this.#message.enter();
    const inner = this.#inner.reset(bytes, this.#message.pos, end);
    this.#message.pos = end;
    let endpoint: EndpointIndex | null = null;
    let status: Status | null = removed ? Status.removed : null;
    while (!inner.done) {
      const part = inner.tag();
      if (part === tag.id) endpoint = this.#endpoint(inner.bytes(), workload);
      else if (part === tag.status && !removed) status = decodeEndpointStatus(inner.bytes());
      else inner.skip(part);
    }
    if (endpoint === null) throw new DecodeError('an endpoint status without an id');
    if (status === null) throw new DecodeError('an endpoint status update without a status');
    this.#decoded.kind = 'status';
    this.#decoded.endpoint = endpoint;
    this.#decoded.status = status;
  }

  #endpoint(idBytes: Uint8Array, workload: boolean): EndpointIndex {
    const key =
      (workload ? 'w' : 'h') +
      Buffer.from(idBytes.buffer, idBytes.byteOffset, idBytes.length).toString('latin1');
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const endpoint = this.#intern(workload ? decodeWorkloadId(idBytes) : decodeHostId(idBytes));
    if (this.#known.size >= cachedIdsMax) {
      let drop = cachedIdsMax / 2;
      for (const oldest of this.#known.keys()) {
        if (drop-- === 0) break;
        this.#known.delete(oldest);
      }
    }
    this.#known.set(key, endpoint);
    return endpoint;
  }
}

function decodeEndpointStatus(bytes: Uint8Array): Status {
  const reader = new Reader(bytes);
  let name = '';
  while (!reader.done) {
    const field = reader.tag();
    if (field === ((1 << 3) | 2)) name = reader.string();
    else reader.skip(field);
  }
  const status = statusFromValue(name);
  if (status === undefined)
    throw new DecodeError(
      `an endpoint status of ${JSON.stringify(name.slice(0, 40))}: up, down or error is allowed`,
    );
  return status;
}

function decodeWorkloadId(bytes: Uint8Array): EndpointId {
  const parts = stringFields(bytes);
  return {
    kind: 'workload',
    orchestrator: parts[2] ?? '',
    workload: parts[3] ?? '',
    endpoint: parts[4] ?? '',
  };
}

function decodeHostId(bytes: Uint8Array): EndpointId {
  return { kind: 'host', endpoint: stringFields(bytes)[2] ?? '' };
}

/** The strings in fields 2 to 4. */
function stringFields(bytes: Uint8Array): (string | undefined)[] {
  const reader = new Reader(bytes);
  const parts: (string | undefined)[] = [];
  while (!reader.done) {
    const field = reader.tag();
    const number = field >>> 3;
    if ((field & 7) === 2 && number >= 2 && number <= 4) parts[number] = reader.string();
    else reader.skip(field);
  }
  return parts;
}

// --- encoding: for those who write to the feed socket -------------------------------------------------------------

function encodeId(id: EndpointId): Uint8Array {
  return id.kind === 'host'
    ? bytesField(1, bytesField(2, id.endpoint))
    : bytesField(1, bytesField(2, id.orchestrator), bytesField(3, id.workload), bytesField(4, id.endpoint));
}

/** The fields of a status update or removal; add encodeSequenceNumber() to make a FromDataplane message of it. */
export function encodeStatus(id: EndpointId, status: Status): Uint8Array {
  const workload = id.kind === 'workload';
  if (status === Status.removed) return bytesField(workload ? 7 : 5, encodeId(id));
  return bytesField(workload ? 6 : 4, encodeId(id), bytesField(2, bytesField(1, statusName(status))));
}

export function encodeSequenceNumber(sequenceNumber: number): Uint8Array {
  return varintField(8, sequenceNumber);
}

export function encodeInSync(): Uint8Array {
  return bytesField(10);
}

/** flapd's answer: everything up to this sequence number is accepted. */
export function encodeAck(sequenceNumber: number): Uint8Array {
  return varintField(15, sequenceNumber);
}

/** The sequence number of a ToDataplane message; 0: it has none. Throws a DecodeError. */
export function decodeAck(bytes: Uint8Array): number {
  const reader = new Reader(bytes);
  let sequenceNumber = 0;
  while (!reader.done) {
    const field = reader.tag();
    if (field === 15 << 3) sequenceNumber = reader.varint();
    else reader.skip(field);
  }
  return sequenceNumber;
}
