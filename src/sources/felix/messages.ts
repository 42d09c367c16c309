/**
 * Felix's messages as the feed socket has them: FromDataplane (from-dataplane.ts) comes in, with endpoints by their
 * numbers, and the one message that flapd writes back is ToDataplane with only sequence_number 15. And both the other
 * way round, for those who feed.
 */
import type { EndpointId, EndpointIndex, EndpointKind } from '../../endpoints/id.js';
import { Status, statusName } from '../../endpoints/status.js';
import { bytesField, Reader, varintField } from '../../wire/protobuf.js';
import { FromDataplaneReader, type ProcessStatus } from './from-dataplane.js';
import { decodeId, encodeId, IdCache } from './ids.js';

export type { ProcessStatus } from './from-dataplane.js';

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

const hostSlots = 1024;

/**
 * Decodes FromDataplane messages, of any number of connections. A frame of an endpoint seen before makes no object and
 * no string: 0.4 us, cut from its chunk, where a string of the bytes of its id as the key of a Map took 1.0 us.
 */
export class FromDataplaneDecoder {
  readonly #intern: (id: EndpointId) => EndpointIndex;
  readonly #known: Readonly<Record<EndpointKind, IdCache>>;
  readonly #reader = new FromDataplaneReader();
  readonly #decoded: Decoded = {
    kind: 'other',
    endpoint: 0 as EndpointIndex,
    status: Status.removed,
    processStatus: null,
    sequenceNumber: 0,
  };

  /** `intern` may throw an InvalidIdError, which decode() passes on. Of more endpoints each frame costs a string again. */
  constructor(intern: (id: EndpointId) => EndpointIndex, endpointsMax: number) {
    this.#intern = intern;
    // Of the standard 20,000: 1 MiB, and the ids in use.
    const workloadSlots = 2 ** Math.ceil(Math.log2(2 * endpointsMax));
    this.#known = { workload: new IdCache(workloadSlots), host: new IdCache(hostSlots) };
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
  decode(bytes: Uint8Array, start = 0, end: number = bytes.length): Readonly<Decoded> {
    const decoded = this.#decoded;
    const read = this.#reader.read(bytes, start, end);
    decoded.kind = read.kind;
    decoded.status = read.status;
    decoded.processStatus = read.processStatus;
    decoded.sequenceNumber = read.sequenceNumber;
    if (read.kind === 'status') decoded.endpoint = this.#endpoint(bytes, read);
    return decoded;
  }

  #endpoint(bytes: Uint8Array, { endpointKind, idStart, idEnd }: FromDataplaneReader): EndpointIndex {
    const known = this.#known[endpointKind].get(bytes, idStart, idEnd);
    if (known !== undefined) return known;
    const endpoint = this.#intern(decodeId(endpointKind, bytes.subarray(idStart, idEnd)));
    this.#known[endpointKind].set(bytes, idStart, idEnd, endpoint);
    return endpoint;
  }
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
