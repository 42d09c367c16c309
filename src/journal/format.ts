/**
 * The journal on disk. Integers and doubles are little endian.
 *
 *     directory  segments journal-<number, ten digits>.log, in the order of their numbers; lock; reserve
 *     segment    header, then blocks. Only the last segment is written to.
 *     header     magic "FLAPDJNL" (8), version u32, number u32
 *     block      magic u32, length u32 of the payload, synced u32, crc u32, payload
 *                One block is what one write brought; `crc` is the CRC-32 (zlib's) of `synced` and the payload.
 *                `synced` is the offset up to which this segment was forced to disk when the block was written.
 *     payload    records, each a type byte and what follows:
 *       1 transition  flags u8 (status, source << 2, initial << 4), endpoint u32, seq f64, observedAtUs f64
 *       2 name        endpoint u32, length u16, key in UTF-8
 *       3 committed   lane u16, revision f64, cursor length u32, cursor, count u16, count x (endpoint u32, seq f64;
 *                     NaN for a confirming write)
 *       4 counters    ifindex u32, running u8, up u32, down u32, length u8, name in UTF-8
 *       5 status      endpoint u32, status u8
 *       6 last seq    f64
 *
 * Invariants
 * - A segment begins with a checkpoint: the names, last statuses, cursors, counters and last seq of all before it. So
 *   every segment can be understood by itself and those after it, and the oldest ones can go.
 * - A name comes before the first transition of its endpoint. Seqs rise.
 * - With sync=always, a block is on disk before the next one is written.
 *
 * Recovery
 * - A bad block in the last segment with nothing good after it, or nothing that was written when the bad one was on
 *   disk already, is a torn tail: what a power cut leaves. It is cut, and nothing that was accepted is missing.
 * - Any other bad block is damage. flapd does not start on it; `flapd journal repair` saves what is good.
 */
import { crc32 } from 'node:zlib';
import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';
import type { InterfaceCounters } from './journal.js';

export const formatVersion = 1;
export const headerBytes = 16;
export const blockHeaderBytes = 16;
const headerMagic = 'FLAPDJNL';
export const blockMagic = 0x4b4c4246; // "FBLK"
/** No write is larger; a length above it is no length. */
export const blockBytesMax = 64 * 2 ** 20;

const RecordType = { transition: 1, name: 2, committed: 3, counters: 4, status: 5, lastSeq: 6 } as const;
export const transitionBytes = 22;

export function segmentName(number: number): string {
  return `journal-${String(number).padStart(10, '0')}.log`;
}

/** Null for a file that is no segment. */
export function segmentNumber(name: string): number | null {
  const match = /^journal-(\d{10})\.log$/.exec(name);
  return match === null ? null : Number(match[1]);
}

export function encodeHeader(number: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.write(headerMagic, 'latin1');
  header.writeUInt32LE(formatVersion, 8);
  header.writeUInt32LE(number, 12);
  return header;
}

/** What is wrong with a segment's first bytes; null: nothing. */
export function headerProblem(bytes: Buffer, number: number): 'short' | 'magic' | 'newer' | 'number' | null {
  if (bytes.length < headerBytes) return 'short';
  if (bytes.toString('latin1', 0, 8) !== headerMagic) return 'magic';
  if (bytes.readUInt32LE(8) > formatVersion) return 'newer';
  return bytes.readUInt32LE(12) === number && bytes.readUInt32LE(8) > 0 ? null : 'number';
}

/** Fills in the header of a block whose payload is in place behind it. */
export function sealBlock(block: Buffer, synced: number): void {
  block.writeUInt32LE(blockMagic, 0);
  block.writeUInt32LE(block.length - blockHeaderBytes, 4);
  block.writeUInt32LE(synced, 8);
  block.writeUInt32LE(blockCrc(block, 0, block.length), 12);
}

export function blockCrc(bytes: Buffer, start: number, end: number): number {
  return crc32(bytes.subarray(start + blockHeaderBytes, end), crc32(bytes.subarray(start + 8, start + 12)));
}

/** Collects records behind the room for a block's header. */
export class BlockBuilder {
  #buffer = Buffer.allocUnsafe(64 * 1024);
  #length = blockHeaderBytes;
  /** The highest seq among its transitions; 0: none. */
  lastSeq = 0;

  get empty(): boolean {
    return this.#length === blockHeaderBytes;
  }

  get bytes(): number {
    return this.#length;
  }

  transition(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    source: Source,
    observedAtUs: number,
    initial: boolean,
  ): void {
    const at = this.#take(transitionBytes);
    const buffer = this.#buffer;
    buffer[at] = RecordType.transition;
    buffer[at + 1] = status | (source << 2) | (initial ? 16 : 0);
    buffer.writeUInt32LE(endpoint, at + 2);
    buffer.writeDoubleLE(seq, at + 6);
    buffer.writeDoubleLE(observedAtUs, at + 14);
    this.lastSeq = seq;
  }

  name(endpoint: EndpointIndex, key: string): void {
    const length = Buffer.byteLength(key);
    const at = this.#take(7 + length);
    this.#buffer[at] = RecordType.name;
    this.#buffer.writeUInt32LE(endpoint, at + 1);
    this.#buffer.writeUInt16LE(length, at + 5);
    this.#buffer.write(key, at + 7);
  }

  committed(
    lane: number,
    cursor: Uint8Array,
    revision: number,
    endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
  ): void {
    let at = this.#take(17 + cursor.length + 12 * endpoints.length);
    const buffer = this.#buffer;
    buffer[at] = RecordType.committed;
    buffer.writeUInt16LE(lane, at + 1);
    buffer.writeDoubleLE(revision, at + 3);
    buffer.writeUInt32LE(cursor.length, at + 11);
    buffer.set(cursor, at + 15);
    at += 15 + cursor.length;
    buffer.writeUInt16LE(endpoints.length, at);
    at += 2;
    for (let i = 0; i < endpoints.length; i++) {
      buffer.writeUInt32LE(endpoints[i]!, at);
      buffer.writeDoubleLE(seqs[i]!, at + 4);
      at += 12;
    }
  }

  counters({ ifindex, name, running, upCount, downCount }: InterfaceCounters): void {
    const length = Buffer.byteLength(name);
    const at = this.#take(15 + length);
    this.#buffer[at] = RecordType.counters;
    this.#buffer.writeUInt32LE(ifindex, at + 1);
    this.#buffer[at + 5] = running ? 1 : 0;
    this.#buffer.writeUInt32LE(upCount, at + 6);
    this.#buffer.writeUInt32LE(downCount, at + 10);
    this.#buffer[at + 14] = length;
    this.#buffer.write(name, at + 15);
  }

  status(endpoint: EndpointIndex, status: Status): void {
    const at = this.#take(6);
    this.#buffer[at] = RecordType.status;
    this.#buffer.writeUInt32LE(endpoint, at + 1);
    this.#buffer[at + 5] = status;
  }

  setLastSeq(seq: number): void {
    const at = this.#take(9);
    this.#buffer[at] = RecordType.lastSeq;
    this.#buffer.writeDoubleLE(seq, at + 1);
  }

  /** The block, ready to be written; a view that clear() makes invalid. */
  seal(synced: number): Buffer {
    const block = this.#buffer.subarray(0, this.#length);
    sealBlock(block, synced);
    return block;
  }

  clear(): void {
    this.#length = blockHeaderBytes;
    this.lastSeq = 0;
    if (this.#buffer.length > 2 ** 20) this.#buffer = Buffer.allocUnsafe(64 * 1024);
  }

  #take(bytes: number): number {
    const at = this.#length;
    if (at + bytes > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, at + bytes));
      this.#buffer.copy(larger, 0, 0, at);
      this.#buffer = larger;
    }
    this.#length = at + bytes;
    return at;
  }
}

/** What a reader of records hears; all of it optional. */
export interface RecordHandler {
  transition?(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    source: Source,
    observedAtUs: number,
    initial: boolean,
  ): void;
  name?(endpoint: EndpointIndex, key: string): void;
  /** `endpoints[i]` and `seqs[i]` belong together. */
  committed?(
    lane: number,
    cursor: Uint8Array,
    revision: number,
    endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
  ): void;
  counters?(counters: InterfaceCounters): void;
  status?(endpoint: EndpointIndex, status: Status): void;
  lastSeq?(seq: number): void;
}

/** Reads the records of a payload whose crc was right. False: it holds something that this version does not know. */
export function readRecords(bytes: Buffer, start: number, end: number, handler: RecordHandler): boolean {
  let at = start;
  while (at < end) {
    switch (bytes[at]) {
      case RecordType.transition: {
        const flags = bytes[at + 1]!;
        handler.transition?.(
          bytes.readDoubleLE(at + 6),
          bytes.readUInt32LE(at + 2) as EndpointIndex,
          (flags & 3) as Status,
          ((flags >> 2) & 3) as Source,
          bytes.readDoubleLE(at + 14),
          (flags & 16) !== 0,
        );
        at += transitionBytes;
        break;
      }
      case RecordType.name: {
        const length = bytes.readUInt16LE(at + 5);
        handler.name?.(
          bytes.readUInt32LE(at + 1) as EndpointIndex,
          bytes.toString('utf8', at + 7, at + 7 + length),
        );
        at += 7 + length;
        break;
      }
      case RecordType.committed:
        at = readCommitted(bytes, at, handler);
        break;
      case RecordType.counters: {
        const length = bytes[at + 14]!;
        handler.counters?.({
          ifindex: bytes.readUInt32LE(at + 1),
          running: bytes[at + 5] === 1,
          upCount: bytes.readUInt32LE(at + 6),
          downCount: bytes.readUInt32LE(at + 10),
          name: bytes.toString('utf8', at + 15, at + 15 + length),
        });
        at += 15 + length;
        break;
      }
      case RecordType.status:
        handler.status?.(bytes.readUInt32LE(at + 1) as EndpointIndex, bytes[at + 5]! as Status);
        at += 6;
        break;
      case RecordType.lastSeq:
        handler.lastSeq?.(bytes.readDoubleLE(at + 1));
        at += 9;
        break;
      default:
        return false;
    }
  }
  return at === end;
}

function readCommitted(bytes: Buffer, start: number, handler: RecordHandler): number {
  const cursorLength = bytes.readUInt32LE(start + 11);
  let at = start + 15 + cursorLength;
  const count = bytes.readUInt16LE(at);
  at += 2;
  if (handler.committed !== undefined) {
    const endpoints: EndpointIndex[] = [];
    const seqs: number[] = [];
    for (let i = 0; i < count; i++) {
      endpoints.push(bytes.readUInt32LE(at + 12 * i) as EndpointIndex);
      seqs.push(bytes.readDoubleLE(at + 12 * i + 4));
    }
    const cursor = new Uint8Array(bytes.subarray(start + 15, start + 15 + cursorLength));
    handler.committed(bytes.readUInt16LE(start + 1), cursor, bytes.readDoubleLE(start + 3), endpoints, seqs);
  }
  return at + 12 * count;
}
