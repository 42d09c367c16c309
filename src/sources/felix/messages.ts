/**
 * What a dataplane tells Felix (FromDataplane of Calico's felix/proto/felixbackend.proto), as far as it matters here:
 *
 *     FromDataplane  process_status_update 3, host_endpoint_status_update 4, host_endpoint_status_remove 5,
 *                    workload_endpoint_status_update 6, workload_endpoint_status_remove 7, sequence_number 8,
 *                    dataplane_in_sync 10
 *     updates        id 1, status 2 {status 1}; removes: id 1
 *     ProcessStatusUpdate  iso_timestamp 1, uptime 2 (seconds)
 *
 * Everything else is skipped. And the one message that flapd writes back: ToDataplane with only sequence_number 15.
 */
import type { EndpointId, EndpointIndex, EndpointKind } from '../../endpoints/id.js';
import { Status, statusName } from '../../endpoints/status.js';
import { bytesField, DecodeError, Reader, varintField } from '../../wire/protobuf.js';
import { decodeId, encodeId, IdCache } from './ids.js';

const tag = {
  processStatus: (3 << 3) | 2,
  hostUpdate: (4 << 3) | 2,
  hostRemove: (5 << 3) | 2,
  workloadUpdate: (6 << 3) | 2,
  workloadRemove: (7 << 3) | 2,
  sequenceNumber: 8 << 3,
  inSync: (10 << 3) | 2,
  /** Of the messages within. */
  id: (1 << 3) | 2,
  status: (2 << 3) | 2,
  statusName: (1 << 3) | 2,
  isoTimestamp: (1 << 3) | 2,
  uptime: (2 << 3) | 1,
} as const;

/** The heartbeat of a dataplane. */
export interface ProcessStatus {
  readonly isoTimestamp: string;
  readonly uptimeSeconds: number;
}

/** What one frame said; of several things in one frame the last one counts (they are a oneof). */
export interface Decoded {
  kind: 'status' | 'inSync' | 'processStatus' | 'other';
  /** Where kind is `status`. */
  endpoint: EndpointIndex;
  status: Status;
  /** Where kind is `processStatus`. */
  processStatus: ProcessStatus | null;
  /** Of the frame; 0: none. */
  sequenceNumber: number;
}

/** Twice the endpoints that a host may have by default (20,000), and more; 1 MiB, and the ids in use. */
const workloadSlots = 65_536;
const hostSlots = 1024;

/**
 * Decodes FromDataplane messages, of any number of connections. A frame of an endpoint seen before makes no object and
 * no string: 0.4 us, cut from its chunk, where a string of the bytes of its id as the key of a Map took 1.0 us.
 */
export class FromDataplaneDecoder {
  readonly #intern: (id: EndpointId) => EndpointIndex;
  readonly #known = { workload: new IdCache(workloadSlots), host: new IdCache(hostSlots) };
  readonly #reader = new Reader();
  readonly #decoded: Decoded = {
    kind: 'other',
    endpoint: 0 as EndpointIndex,
    status: Status.removed,
    processStatus: null,
    sequenceNumber: 0,
  };
  #endpointKind: EndpointKind = 'workload';
  #idStart = 0;
  #idEnd = 0;

  /** `intern` may throw an InvalidIdError, which decode() passes on. */
  constructor(intern: (id: EndpointId) => EndpointIndex) {
    this.#intern = intern;
  }

  /** Numbers may stand for other endpoints from now on. */
  forgetNumbers(): void {
    this.#known.workload.clear();
    this.#known.host.clear();
  }

  /**
   * The result is overwritten by the next call. Throws a DecodeError. An endpoint is given a number only when all of
   * its frame has been read: nonsense leaves no trace.
   */
  decode(bytes: Uint8Array): Readonly<Decoded> {
    const decoded = this.#decoded;
    decoded.kind = 'other';
    decoded.processStatus = null;
    decoded.sequenceNumber = 0;
    const reader = this.#reader.reset(bytes);
    while (!reader.done) {
      const field = reader.tag();
      switch (field) {
        case tag.workloadUpdate:
        case tag.hostUpdate:
          this.#readStatus(bytes, field === tag.workloadUpdate ? 'workload' : 'host', false);
          decoded.kind = 'status';
          break;
        case tag.workloadRemove:
        case tag.hostRemove:
          this.#readStatus(bytes, field === tag.workloadRemove ? 'workload' : 'host', true);
          decoded.kind = 'status';
          break;
        case tag.sequenceNumber:
          decoded.sequenceNumber = reader.varint();
          if (!Number.isSafeInteger(decoded.sequenceNumber))
            throw new DecodeError(`a sequence number of ${decoded.sequenceNumber}: below 2^53 is allowed`);
          break;
        case tag.inSync:
          reader.skip(field);
          decoded.kind = 'inSync';
          break;
        case tag.processStatus:
          decoded.processStatus = readProcessStatus(new Reader(reader.bytes()));
          decoded.kind = 'processStatus';
          break;
        default:
          reader.skip(field);
      }
    }
    if (decoded.kind === 'status') decoded.endpoint = this.#endpoint(bytes);
    return decoded;
  }

  #readStatus(bytes: Uint8Array, kind: EndpointKind, removed: boolean): void {
    const reader = this.#reader;
    const end = reader.end;
    reader.end = reader.enter();
    let status: Status | null = removed ? Status.removed : null;
    this.#endpointKind = kind;
    this.#idStart = -1;
    while (!reader.done) {
      const part = reader.tag();
      if (part === tag.id) {
        this.#idEnd = reader.enter();
        this.#idStart = reader.pos;
        reader.pos = this.#idEnd;
      } else if (part === tag.status && !removed) {
        status = readEndpointStatus(reader, bytes);
      } else {
        reader.skip(part);
      }
    }
    reader.end = end;
    if (this.#idStart < 0) throw new DecodeError('an endpoint status without an id');
    if (status === null) throw new DecodeError('an endpoint status update without a status');
    this.#decoded.status = status;
  }

  #endpoint(bytes: Uint8Array): EndpointIndex {
    const kind = this.#endpointKind;
    const known = this.#known[kind].get(bytes, this.#idStart, this.#idEnd);
    if (known !== undefined) return known;
    const endpoint = this.#intern(decodeId(kind, bytes.subarray(this.#idStart, this.#idEnd)));
    this.#known[kind].set(bytes, this.#idStart, this.#idEnd, endpoint);
    return endpoint;
  }
}

/** The EndpointStatus that follows. */
function readEndpointStatus(reader: Reader, bytes: Uint8Array): Status {
  const end = reader.end;
  reader.end = reader.enter();
  let status: Status | null = null;
  while (!reader.done) {
    const field = reader.tag();
    if (field === tag.statusName) status = readStatusName(reader, bytes);
    else reader.skip(field);
  }
  reader.end = end;
  if (status === null)
    throw new DecodeError('an endpoint status without a name: up, down or error is allowed');
  return status;
}

const statuses = [Status.up, Status.down, Status.error].map((status) => ({
  status,
  name: Buffer.from(statusName(status)),
}));

function readStatusName(reader: Reader, bytes: Uint8Array): Status {
  const start = reader.pos;
  const end = reader.enter();
  const length = end - reader.pos;
  for (const { status, name } of statuses) {
    if (name.length !== length) continue;
    let same = 0;
    while (same < length && name[same] === bytes[reader.pos + same]) same++;
    if (same < length) continue;
    reader.pos = end;
    return status;
  }
  reader.pos = start;
  const name = reader.string().slice(0, 40);
  throw new DecodeError(`an endpoint status of ${JSON.stringify(name)}: up, down or error is allowed`);
}

function readProcessStatus(reader: Reader): ProcessStatus {
  let isoTimestamp = '';
  let uptimeSeconds = 0;
  while (!reader.done) {
    const field = reader.tag();
    if (field === tag.isoTimestamp) isoTimestamp = reader.string();
    else if (field === tag.uptime) uptimeSeconds = reader.double();
    else reader.skip(field);
  }
  return { isoTimestamp, uptimeSeconds };
}

// --- encoding: for those who write to the feed socket -------------------------------------------------------------

/** The fields of a status update or removal; add encodeSequenceNumber() to make a FromDataplane message of it. */
export function encodeStatus(id: EndpointId, status: Status): Uint8Array {
  const workload = id.kind === 'workload';
  if (status === Status.removed) return bytesField(workload ? 7 : 5, encodeId(id));
  return bytesField(workload ? 6 : 4, encodeId(id), bytesField(2, bytesField(1, statusName(status))));
}

/** A FromDataplane message's number, which asks for an acknowledgement; 0 <= n < 2^53. */
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
