/**
 * A lane's cursor: which of its transitions are committed. It is written by every transaction of the lane and
 * compared by every next one, which is what makes each transition land exactly once.
 *
 * `ack` is cumulative: every transition of the lane with seq <= ack is committed. `sack` is selective, per
 * endpoint: every transition of endpoint e with seq <= s is committed as well. An endpoint's transitions are
 * committed in their order, so one number says it all, and an endpoint with a long backlog costs its lane one
 * entry for each endpoint that overtakes it, not one for each transition that does.
 *
 * Bytes: version (1), then varints: number, ack, entries, and for each entry: endpoint, seq - ack.
 * `number` counts the lane's transactions: it makes every value different from all before it, also those of
 * a transaction that only confirms and moves no seq.
 */
import type { EndpointIndex } from '../endpoints/id.js';
import { Reader, varintLength, writeVarint } from '../wire/protobuf.js';

export interface Cursor {
  readonly number: number;
  readonly ack: number;
  readonly sack: ReadonlyMap<EndpointIndex, number>;
}

/** At most so many endpoints may be ahead of a lane's oldest pending transition. */
export const sackMax = 1024;

const version = 1;

export class CursorError extends Error {
  readonly code = 'CURSOR_UNREADABLE';
}

/** `endpoints[i]` is committed up to `seqs[i]`, all above `ack`. */
export function encodeCursor(
  number: number,
  ack: number,
  endpoints: readonly number[],
  seqs: readonly number[],
): Uint8Array {
  let length = 1 + varintLength(number) + varintLength(ack) + varintLength(endpoints.length);
  for (let i = 0; i < endpoints.length; i++)
    length += varintLength(endpoints[i]!) + varintLength(seqs[i]! - ack);
  const bytes = new Uint8Array(length);
  bytes[0] = version;
  let at = writeVarint(bytes, 1, number);
  at = writeVarint(bytes, at, ack);
  at = writeVarint(bytes, at, endpoints.length);
  for (let i = 0; i < endpoints.length; i++) {
    at = writeVarint(bytes, at, endpoints[i]!);
    at = writeVarint(bytes, at, seqs[i]! - ack);
  }
  return bytes;
}

/** Throws a CursorError for bytes that are no cursor of this version. */
export function decodeCursor(bytes: Uint8Array): Cursor {
  if (bytes[0] !== version)
    throw new CursorError(`a cursor of version ${bytes[0] ?? '(empty)'}; this flapd reads ${version}`);
  try {
    const reader = new Reader(bytes, 1);
    const number = reader.varint();
    const ack = reader.varint();
    const entries = reader.varint();
    const sack = new Map<EndpointIndex, number>();
    for (let i = 0; i < entries; i++) {
      const endpoint = reader.varint() as EndpointIndex;
      sack.set(endpoint, ack + reader.varint());
    }
    if (reader.pos !== bytes.length) throw new CursorError('a cursor with bytes after its end');
    return { number, ack, sack };
  } catch (cause) {
    throw cause instanceof CursorError ? cause : new CursorError('a cursor cut short', { cause });
  }
}

/** Whether the cursor says that this transition of its lane is committed. */
export function covers(cursor: Cursor, endpoint: EndpointIndex, seq: number): boolean {
  return seq <= cursor.ack || seq <= (cursor.sack.get(endpoint) ?? 0);
}

/** The highest seq that the cursor knows of. */
export function highestSeq(cursor: Cursor): number {
  let highest = cursor.ack;
  for (const seq of cursor.sack.values()) highest = Math.max(highest, seq);
  return highest;
}

export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
