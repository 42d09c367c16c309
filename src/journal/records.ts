/** Records (format.ts) written into blocks, and read from them. */
import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';
import { blockHeaderBytes, sealBlock } from './format.js';
import type { InterfaceCounters } from './journal.js';

const RecordType = {
  transition: 1,
  name: 2,
  committed: 3,
  counters: 4,
  status: 5,
  lastSeq: 6,
  settled: 7,
} as const;

export const transitionBytes = 22;
const initialFlag = 16;
const startBytes = 64 * 1024;
/** A larger buffer, which a burst has left, is given back. */
const keptBytes = 2 ** 20;

/** Collects records behind the room for a block's header, in a buffer that it keeps. */
export class BlockBuilder {
  #buffer = Buffer.allocUnsafeSlow(startBytes);
  #view = new DataView(this.#buffer.buffer);
  #length = blockHeaderBytes;
  /** The highest seq among its transitions; 0: it has none. */
  lastSeq = 0;

  get empty(): boolean {
    return this.#length === blockHeaderBytes;
  }

  get bytes(): number {
    return this.#length;
  }

  /** The hot path: a DataView's setters are inlined, a Buffer's are calls with checks. bench/journal-stores.ts */
  transition(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    source: Source,
    observedAtUs: number,
    initial: boolean,
  ): void {
    const at = this.#take(transitionBytes);
    const view = this.#view;
    view.setUint8(at, RecordType.transition);
    view.setUint8(at + 1, status | (source << 2) | (initial ? initialFlag : 0));
    view.setUint32(at + 2, endpoint, true);
    view.setFloat64(at + 6, seq, true);
    view.setFloat64(at + 14, observedAtUs, true);
    this.lastSeq = seq;
  }

  name(endpoint: EndpointIndex, key: string): void {
    const length = Buffer.byteLength(key);
    const at = this.#take(7 + length);
    this.#view.setUint8(at, RecordType.name);
    this.#view.setUint32(at + 1, endpoint, true);
    this.#view.setUint16(at + 5, length, true);
    this.#buffer.write(key, at + 7);
  }

  committed(
    lane: number,
    cursor: Uint8Array,
    revision: number,
    atUs: number,
    endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
    confirm: readonly boolean[],
  ): void {
    let at = this.#take(25 + cursor.length + 12 * endpoints.length);
    const view = this.#view;
    view.setUint8(at, RecordType.committed);
    view.setUint16(at + 1, lane, true);
    view.setFloat64(at + 3, revision, true);
    view.setFloat64(at + 11, atUs, true);
    view.setUint32(at + 19, cursor.length, true);
    this.#buffer.set(cursor, at + 23);
    at += 23 + cursor.length;
    view.setUint16(at, endpoints.length, true);
    at += 2;
    for (let i = 0; i < endpoints.length; i++) {
      view.setUint32(at, endpoints[i]!, true);
      view.setFloat64(at + 4, confirm[i] ? -seqs[i]! : seqs[i]!, true);
      at += 12;
    }
  }

  counters({ ifindex, name, running, upCount, downCount }: InterfaceCounters): void {
    const length = Buffer.byteLength(name);
    const at = this.#take(15 + length);
    this.#view.setUint8(at, RecordType.counters);
    this.#view.setUint32(at + 1, ifindex, true);
    this.#view.setUint8(at + 5, running ? 1 : 0);
    this.#view.setUint32(at + 6, upCount, true);
    this.#view.setUint32(at + 10, downCount, true);
    this.#view.setUint8(at + 14, length);
    this.#buffer.write(name, at + 15);
  }

  status(endpoint: EndpointIndex, status: Status): void {
    const at = this.#take(6);
    this.#view.setUint8(at, RecordType.status);
    this.#view.setUint32(at + 1, endpoint, true);
    this.#view.setUint8(at + 5, status);
  }

  setLastSeq(seq: number): void {
    this.#number(RecordType.lastSeq, seq);
  }

  settled(oldestPendingSeq: number): void {
    this.#number(RecordType.settled, oldestPendingSeq);
  }

  /** Takes over the records of another. */
  addAll(other: BlockBuilder): void {
    const at = this.#take(other.#length - blockHeaderBytes);
    other.#buffer.copy(this.#buffer, at, blockHeaderBytes, other.#length);
    this.lastSeq = Math.max(this.lastSeq, other.lastSeq);
  }

  /** Records as they were read. */
  addRaw(bytes: Uint8Array): void {
    const at = this.#take(bytes.length);
    this.#buffer.set(bytes, at);
  }

  read(handler: RecordHandler): void {
    readRecords(this.#buffer, blockHeaderBytes, this.#length, handler);
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
    if (this.#buffer.length > keptBytes) this.#allocate(startBytes);
  }

  #number(type: number, value: number): void {
    const at = this.#take(9);
    this.#view.setUint8(at, type);
    this.#view.setFloat64(at + 1, value, true);
  }

  #take(bytes: number): number {
    const at = this.#length;
    if (at + bytes > this.#buffer.length) {
      const before = this.#buffer;
      this.#allocate(Math.max(before.length * 2, at + bytes));
      before.copy(this.#buffer, 0, 0, at);
    }
    this.#length = at + bytes;
    return at;
  }

  #allocate(bytes: number): void {
    this.#buffer = Buffer.allocUnsafeSlow(bytes);
    this.#view = new DataView(this.#buffer.buffer);
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
  /** `endpoints[i]` and `seqs[i]` belong together. A revision of 0: the cursor alone, of a checkpoint. */
  committed?(
    lane: number,
    cursor: Uint8Array,
    revision: number,
    atUs: number,
    endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
    confirm: readonly boolean[],
  ): void;
  counters?(counters: InterfaceCounters): void;
  status?(endpoint: EndpointIndex, status: Status): void;
  lastSeq?(seq: number): void;
  settled?(oldestPendingSeq: number): void;
}

/**
 * Reads the records of a payload whose crc was right. False: it holds something that this version does not write, and
 * what comes after it has not been read.
 */
export function readRecords(bytes: Buffer, start: number, end: number, handler: RecordHandler): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = start;
  try {
    while (at < end) {
      const length = readRecord(bytes, view, at, handler);
      if (length === 0) return false;
      at += length;
    }
  } catch (error) {
    if (error instanceof RangeError) return false; // beyond the end of the file
    throw error;
  }
  return at === end;
}

/** Returns its length; 0 for a type that is not known. */
function readRecord(bytes: Buffer, view: DataView, at: number, handler: RecordHandler): number {
  switch (view.getUint8(at)) {
    case RecordType.transition: {
      const flags = view.getUint8(at + 1);
      handler.transition?.(
        view.getFloat64(at + 6, true),
        view.getUint32(at + 2, true) as EndpointIndex,
        (flags & 3) as Status,
        ((flags >> 2) & 3) as Source,
        view.getFloat64(at + 14, true),
        (flags & initialFlag) !== 0,
      );
      return transitionBytes;
    }
    case RecordType.name: {
      const length = view.getUint16(at + 5, true);
      handler.name?.(
        view.getUint32(at + 1, true) as EndpointIndex,
        bytes.toString('utf8', at + 7, at + 7 + length),
      );
      return 7 + length;
    }
    case RecordType.committed:
      return readCommitted(bytes, view, at, handler);
    case RecordType.counters: {
      const length = view.getUint8(at + 14);
      handler.counters?.({
        ifindex: view.getUint32(at + 1, true),
        running: view.getUint8(at + 5) === 1,
        upCount: view.getUint32(at + 6, true),
        downCount: view.getUint32(at + 10, true),
        name: bytes.toString('utf8', at + 15, at + 15 + length),
      });
      return 15 + length;
    }
    case RecordType.status:
      handler.status?.(view.getUint32(at + 1, true) as EndpointIndex, view.getUint8(at + 5) as Status);
      return 6;
    case RecordType.lastSeq:
      handler.lastSeq?.(view.getFloat64(at + 1, true));
      return 9;
    case RecordType.settled:
      handler.settled?.(view.getFloat64(at + 1, true));
      return 9;
    default:
      return 0;
  }
}

function readCommitted(bytes: Buffer, view: DataView, start: number, handler: RecordHandler): number {
  const cursorLength = view.getUint32(start + 19, true);
  const countAt = start + 23 + cursorLength;
  const count = view.getUint16(countAt, true);
  const length = 25 + cursorLength + 12 * count;
  if (handler.committed === undefined) return length;
  const endpoints: EndpointIndex[] = [];
  const seqs: number[] = [];
  const confirm: boolean[] = [];
  for (let i = 0, at = countAt + 2; i < count; i++, at += 12) {
    endpoints.push(view.getUint32(at, true) as EndpointIndex);
    const seq = view.getFloat64(at + 4, true);
    seqs.push(Math.abs(seq));
    confirm.push(seq < 0);
  }
  handler.committed(
    view.getUint16(start + 1, true),
    Uint8Array.from(bytes.subarray(start + 23, countAt)),
    view.getFloat64(start + 3, true),
    view.getFloat64(start + 11, true),
    endpoints,
    seqs,
    confirm,
  );
  return length;
}
