/**
 * What a watch says, decoded by hand (etcd, api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto):
 *
 *     WatchResponse  header 1, created 3, canceled 4, compact_revision 5, cancel_reason 6, events 11
 *     Event          type 1 (PUT 0, DELETE 1), kv 2
 *     KeyValue       key 1, mod_revision 3, value 5
 */
import { Reader } from '../wire/protobuf.js';
import { revisionOf } from './answer.js';

export interface WatchEvent {
  readonly key: string;
  /** Null: the key was deleted. */
  readonly value: Buffer | null;
  /** Of this event: each revision of a key is one event. */
  readonly revision: number;
}

export interface WatchResponse {
  readonly revision: number;
  readonly created: boolean;
  readonly canceled: boolean;
  readonly compactRevision: number;
  readonly cancelReason: string;
  readonly events: readonly WatchEvent[];
}

/** Throws a DecodeError. */
export function decodeWatchResponse(bytes: Buffer): WatchResponse {
  const reader = new Reader(bytes);
  let revision = 0;
  let created = false;
  let canceled = false;
  let compactRevision = 0;
  let cancelReason = '';
  const events: WatchEvent[] = [];
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === 10) revision = revisionOf(reader.bytes());
    else if (tag === 24) created = reader.varint() !== 0;
    else if (tag === 32) canceled = reader.varint() !== 0;
    else if (tag === 40) compactRevision = reader.varint();
    else if (tag === 50) cancelReason = reader.string();
    else if (tag === 90) {
      const end = reader.enter();
      events.push(decodeEvent(bytes, reader.pos, end));
      reader.pos = end;
    } else reader.skip(tag);
  }
  return { revision, created, canceled, compactRevision, cancelReason, events };
}

function decodeEvent(bytes: Buffer, start: number, end: number): WatchEvent {
  const reader = new Reader(bytes, start, end);
  let deleted = false;
  let event: WatchEvent = { key: '', value: null, revision: 0 };
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === 8) deleted = reader.varint() === 1;
    else if (tag === 18) {
      const kvEnd = reader.enter();
      event = decodeKeyValue(bytes, reader.pos, kvEnd);
      reader.pos = kvEnd;
    } else reader.skip(tag);
  }
  return deleted ? { ...event, value: null } : event;
}

function decodeKeyValue(bytes: Buffer, start: number, end: number): WatchEvent {
  const reader = new Reader(bytes, start, end);
  let key = '';
  let value: Buffer = Buffer.alloc(0);
  let revision = 0;
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === 10) {
      const keyEnd = reader.enter();
      key = bytes.toString('utf8', reader.pos, keyEnd);
      reader.pos = keyEnd;
    } else if (tag === 24) revision = reader.varint();
    else if (tag === 42) {
      const valueEnd = reader.enter();
      value = bytes.subarray(reader.pos, valueEnd);
      reader.pos = valueEnd;
    } else reader.skip(tag);
  }
  return { key, value, revision };
}
