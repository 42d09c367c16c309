/**
 * What `flapd felix-driver` tells flapd over a socket of their own, in frames as everywhere. A message of ours:
 *
 *     DriverMessage  sequence_number 1 varint, to_dataplane 2 bytes | from_dataplane 3 bytes |
 *                    snapshot_begin 4 {} | snapshot_end 5 {}, observed_at 6 varint (Unix time in microseconds)
 *
 *     snapshot_begin, (to_dataplane | from_dataplane)*, snapshot_end, (to_dataplane | from_dataplane)*
 *
 * - Each connection begins with a snapshot: what felix-driver has told of each endpoint *so far*, to whichever flapd, as
 *   one status and one definition (in this order) of each endpoint that has them, and in_sync if Felix was. What has been
 *   sent and was not acknowledged is part of it: it may have been accepted, and going back behind it would be a transition.
 * - Then comes, one by one, what is new. Of one endpoint (and of in_sync) only one message at a time is unacknowledged.
 *   After a reconnect that one is said again, once the snapshot is over: accepted before or not, it is accepted once,
 *   since a status that an endpoint has already is no transition (the same as with the feed socket: feed.ts).
 * - A number says: acknowledge. It comes back as on the feed socket, when all up to it is durable in the journal.
 *
 * to_dataplane and from_dataplane hold messages of Felix's protocol (to-dataplane.ts, from-dataplane.ts), of which only
 * the parts that are read are sent.
 */
import { bytesField, Reader, varintField } from '../../wire/protobuf.js';
import { readSequenceNumber } from './from-dataplane.js';

/** felix-driver looks at frames of Felix's up to this. */
export const lookedAtBytesMax = 64 * 1024;
/** One of those in a message of ours. */
export const driverFrameBytesMax = lookedAtBytesMax + 1024;

export interface DriverMessage {
  readonly kind: 'toDataplane' | 'fromDataplane' | 'snapshotBegin' | 'snapshotEnd' | 'other';
  /** A message of Felix's protocol, where kind says so; a view. */
  readonly content: Uint8Array;
  /** 0: no acknowledgement is asked for. */
  readonly sequenceNumber: number;
  /** When felix-driver saw it; null: it does not say. */
  readonly observedAtUs: number | null;
}

const kinds = new Map<number, DriverMessage['kind']>([
  [2, 'toDataplane'],
  [3, 'fromDataplane'],
  [4, 'snapshotBegin'],
  [5, 'snapshotEnd'],
]);

/** Throws a DecodeError. */
export function decodeDriverMessage(bytes: Uint8Array): DriverMessage {
  const reader = new Reader(bytes);
  let kind: DriverMessage['kind'] = 'other';
  let content = new Uint8Array();
  let sequenceNumber = 0;
  let observedAtUs: number | null = null;
  while (!reader.done) {
    const field = reader.tag();
    const found = (field & 7) === 2 ? kinds.get(field >>> 3) : undefined;
    if (found !== undefined) {
      kind = found;
      content = reader.bytes() as Uint8Array<ArrayBuffer>;
    } else if (field === 1 << 3) sequenceNumber = readSequenceNumber(reader);
    else if (field === 6 << 3) observedAtUs = reader.varint();
    else reader.skip(field);
  }
  return { kind, content, sequenceNumber, observedAtUs };
}

/** `kind` and its content, with a number where it is to be acknowledged. Parts of one frame (frames.ts). */
export function encodeDriverMessage(message: {
  readonly kind: Exclude<DriverMessage['kind'], 'other'>;
  readonly content?: Uint8Array;
  readonly sequenceNumber?: number;
  readonly observedAtUs?: number;
}): Uint8Array[] {
  const { kind, content, sequenceNumber, observedAtUs } = message;
  const [number] = [...kinds].find(([, one]) => one === kind)!;
  const parts = [bytesField(number, content ?? '')];
  if (sequenceNumber !== undefined) parts.push(varintField(1, sequenceNumber));
  if (observedAtUs !== undefined) parts.push(varintField(6, observedAtUs));
  return parts;
}
