/**
 * What a dataplane tells Felix (FromDataplane of Calico's felix/proto/felixbackend.proto), as far as it matters here:
 *
 *     FromDataplane  process_status_update 3, host_endpoint_status_update 4, host_endpoint_status_remove 5,
 *                    workload_endpoint_status_update 6, workload_endpoint_status_remove 7, sequence_number 8,
 *                    dataplane_in_sync 10
 *     updates        id 1, status 2 {status 1}; removes: id 1
 *     ProcessStatusUpdate  iso_timestamp 1, uptime 2 (seconds)
 *
 * Everything else is skipped.
 */
import type { EndpointId, EndpointKind } from '../../endpoints/id.js';
import { Status, statusName } from '../../endpoints/status.js';
import { DecodeError, Reader } from '../../wire/protobuf.js';
import { decodeId } from './ids.js';

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

/** What one message said, of several things in it the last one (they are a oneof). Overwritten by the next one. */
export class FromDataplaneReader {
  kind: 'status' | 'inSync' | 'processStatus' | 'other' = 'other';
  /** Where kind is `status`: the id, encoded, lies between those two in the message. */
  endpointKind: EndpointKind = 'workload';
  idStart = 0;
  idEnd = 0;
  status: Status = Status.removed;
  /** Where kind is `processStatus`. */
  processStatus: ProcessStatus | null = null;
  /** 0: none. */
  sequenceNumber = 0;
  readonly #reader = new Reader();

  /** Makes no object and no string of a status. Throws a DecodeError. */
  read(bytes: Uint8Array, start = 0, end: number = bytes.length): this {
    this.kind = 'other';
    this.processStatus = null;
    this.sequenceNumber = 0;
    const reader = this.#reader.reset(bytes, start, end);
    while (!reader.done) {
      const field = reader.tag();
      switch (field) {
        case tag.workloadUpdate:
        case tag.hostUpdate:
          this.#readStatus(bytes, field === tag.workloadUpdate ? 'workload' : 'host', false);
          break;
        case tag.workloadRemove:
        case tag.hostRemove:
          this.#readStatus(bytes, field === tag.workloadRemove ? 'workload' : 'host', true);
          break;
        case tag.sequenceNumber:
          this.sequenceNumber = readSequenceNumber(reader);
          break;
        case tag.inSync:
          reader.skip(field);
          this.kind = 'inSync';
          break;
        case tag.processStatus:
          this.processStatus = readProcessStatus(new Reader(reader.bytes()));
          this.kind = 'processStatus';
          break;
        default:
          reader.skip(field);
      }
    }
    return this;
  }

  #readStatus(bytes: Uint8Array, kind: EndpointKind, removed: boolean): void {
    const reader = this.#reader;
    const end = reader.end;
    reader.end = reader.enter();
    let status: Status | null = removed ? Status.removed : null;
    this.endpointKind = kind;
    this.idStart = -1;
    while (!reader.done) {
      const part = reader.tag();
      if (part === tag.id) {
        this.idEnd = reader.enter();
        this.idStart = reader.pos;
        reader.pos = this.idEnd;
      } else if (part === tag.status && !removed) {
        status = readEndpointStatus(reader, bytes);
      } else {
        reader.skip(part);
      }
    }
    reader.end = end;
    if (this.idStart < 0) throw new DecodeError('an endpoint status without an id');
    if (status === null) throw new DecodeError('an endpoint status update without a status');
    // Never `error` for a workload: Neutron would make a failed VIF plug of it, and Nova give the VM up (Calico PR 10656).
    this.status = status === Status.error && kind === 'workload' ? Status.down : status;
    this.kind = 'status';
  }
}

export type FromDataplane =
  | { readonly kind: 'status'; readonly id: EndpointId; readonly status: Status }
  /** The dataplane has told of everything that Felix had told it when that was in sync. */
  | { readonly kind: 'inSync' }
  | { readonly kind: 'processStatus'; readonly processStatus: ProcessStatus }
  | { readonly kind: 'other' };

const shared = new FromDataplaneReader();

/** One message, for those who have few of them. Throws a DecodeError. */
export function decodeFromDataplane(bytes: Uint8Array): FromDataplane {
  const { kind, endpointKind, idStart, idEnd, status, processStatus } = shared.read(bytes);
  switch (kind) {
    case 'status':
      return { kind, id: decodeId(endpointKind, bytes.subarray(idStart, idEnd)), status };
    case 'processStatus':
      return { kind, processStatus: processStatus! };
    default:
      return { kind };
  }
}

/** Of a message's number; an acknowledgement must be able to hold it. */
export function readSequenceNumber(reader: Reader): number {
  const sequenceNumber = reader.varint();
  if (!Number.isSafeInteger(sequenceNumber))
    throw new DecodeError(`a sequence number of ${sequenceNumber}: below 2^53 is allowed`);
  return sequenceNumber;
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
