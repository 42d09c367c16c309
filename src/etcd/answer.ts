/**
 * etcd's answer to a lane's transaction, decoded by hand (etcd, api/etcdserverpb/rpc.proto):
 *
 *     TxnResponse    header 1, succeeded 2, responses 3
 *     ResponseHeader revision 3
 *     ResponseOp     response_range 1
 *     RangeResponse  kvs 2
 *     KeyValue       (api/mvccpb/kv.proto) mod_revision 3, value 5
 */
import type { TxnAnswer } from '../reporter/answers.js';
import { Reader } from '../wire/protobuf.js';

interface Read {
  readonly value: Uint8Array;
  readonly modRevision: number;
}

/** Committed, or what the *else* branch (get claim, get cursor; see encoding.ts) has read. Throws a DecodeError. */
export function decodeAnswer(response: Uint8Array): TxnAnswer {
  const reader = new Reader(response);
  let revision = 0;
  let succeeded = false;
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === 10) revision = revisionOf(reader.bytes());
    else if (tag === 16) succeeded = reader.varint() !== 0;
    else reader.skip(tag);
  }
  // What the puts and deletes answer says nothing: there may be a hundred of them.
  if (succeeded) return { kind: 'committed', revision };
  const [claim = null, cursor = null] = responsesOf(response).map(readOf);
  return { kind: 'conflict', revision, claim: claim?.value ?? null, cursor };
}

function responsesOf(response: Uint8Array): Uint8Array[] {
  const reader = new Reader(response);
  const responses: Uint8Array[] = [];
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === 26) responses.push(reader.bytes());
    else reader.skip(tag);
  }
  return responses;
}

/** Of a ResponseHeader. */
export function revisionOf(header: Uint8Array): number {
  const reader = new Reader(header);
  let revision = 0;
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === 24) revision = reader.varint();
    else reader.skip(tag);
  }
  return revision;
}

/** The one key of a ResponseOp's range; null: no such key, or no range. */
function readOf(response: Uint8Array): Read | null {
  const range = submessage(response, 1);
  const keyValue = range && submessage(range, 2);
  if (!keyValue) return null;
  const reader = new Reader(keyValue);
  let modRevision = 0;
  let value: Uint8Array = new Uint8Array();
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === 24) modRevision = reader.varint();
    // A copy: a view would keep gRPC's whole buffer, and take it along to the main thread.
    else if (tag === 42) value = new Uint8Array(reader.bytes());
    else reader.skip(tag);
  }
  return { value, modRevision };
}

/** The first length-delimited field of that number. */
function submessage(message: Uint8Array, number: number): Uint8Array | null {
  const reader = new Reader(message);
  while (!reader.done) {
    const tag = reader.tag();
    if (tag === number * 8 + 2) return reader.bytes();
    reader.skip(tag);
  }
  return null;
}
