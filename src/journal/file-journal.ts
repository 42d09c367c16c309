/**
 * The journal in files (format.ts). Appends gather in memory while the last gathering is being written and forced to
 * disk: one sync serves all that came meanwhile, so that its cost is latency and not throughput.
 */
import { mkdirSync, statfsSync } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';
import { BlockBuilder, encodeHeader, headerBytes, segmentName } from './format.js';
import type { InterfaceCounters, Journal, JournalListener, Recovered } from './journal.js';
import { lockJournal } from './lock.js';
import { openSegments, type SegmentInfo } from './recovery.js';

export interface FileJournalOptions {
  readonly directory: string;
  /** always: before a transition counts as accepted. interval: every so often. never: when the kernel sees fit. */
  readonly sync: 'always' | 'interval' | 'never';
  readonly syncIntervalMs: number;
  readonly segmentBytes?: number;
  /** Committed history that is kept. */
  readonly retainBytes: number;
  /** Above it, sources that can wait are not read. */
  readonly bytesMax: number;
  readonly listener: JournalListener;
}

/** The disk, or the directory, does not do what it must. */
export class JournalIoError extends Error {
  readonly code = 'JOURNAL_IO';
}

const segmentBytesDefault = 16 * 2 ** 20;
/** Given up when the disk is full, so that what frees space can still be written. */
const reserveBytes = 2 ** 20;
/** What need not be durable waits this long for something that must be. */
const lazyMs = 100;
const retryFullMs = 500;

export class FileJournal implements Journal {
  readonly recovered: Recovered;
  /** Bytes of a torn tail that were cut at the start. */
  readonly cutBytes: number;
  durableSeq: number;
  readonly #options: FileJournalOptions;
  readonly #segmentBytes: number;
  readonly #unlock: () => void;
  readonly #segments: SegmentInfo[];
  #file: FileHandle;
  /** Of the segment being written: everything before it is on disk. */
  #synced: number;
  #filling = new BlockBuilder();
  #spare = new BlockBuilder();
  #flushing: Promise<void> | null = null;
  #soon: NodeJS.Immediate | null = null;
  #later: NodeJS.Timeout | null = null;
  #syncTimer: NodeJS.Timeout | null = null;
  #full: string | null = null;
  #accepting = true;
  #failed = false;
  #closed = false;
  #oldestPendingSeq = 0;
  // What a checkpoint holds.
  readonly #names: Map<EndpointIndex, string>;
  readonly #statuses: Map<EndpointIndex, Status>;
  readonly #cursors: Map<number, Uint8Array>;
  readonly #counters: Map<number, InterfaceCounters>;
  readonly #changedCounters = new Set<number>();
  #lastSeq: number;

  private constructor(
    options: FileJournalOptions,
    unlock: () => void,
    opened: ReturnType<typeof openSegments>,
    file: FileHandle,
  ) {
    this.#options = options;
    this.#segmentBytes = options.segmentBytes ?? segmentBytesDefault;
    this.#unlock = unlock;
    this.#segments = opened.segments;
    this.#file = file;
    this.#synced = opened.segments.at(-1)!.bytes;
    this.recovered = opened.recovered;
    this.cutBytes = opened.cutBytes;
    const { endpoints, statuses, cursors, counters, lastSeq } = opened.recovered;
    this.#names = new Map(endpoints);
    this.#statuses = new Map(statuses);
    this.#cursors = new Map(cursors);
    this.#counters = new Map(counters.map((one) => [one.ifindex, one]));
    this.#lastSeq = lastSeq;
    this.durableSeq = lastSeq;
    if (options.sync === 'interval') {
      this.#syncTimer = setInterval(() => void this.#syncNow(), options.syncIntervalMs).unref();
    }
  }

  /** Rejects with a JournalIoError, JournalLockedError, JournalDamagedError or JournalVersionError. */
  static async open(options: FileJournalOptions): Promise<FileJournal> {
    const { directory } = options;
    let unlock: (() => void) | null = null;
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      unlock = lockJournal(directory);
      const opened = openSegments(directory);
      if (opened.segments.length === 0) opened.segments.push(await createSegment(directory, 1));
      const file = await open(join(directory, segmentName(opened.segments.at(-1)!.number)), 'r+');
      await file.datasync(); // what was read is what is built upon
      const journal = new FileJournal(options, unlock, opened, file);
      await journal.#makeReserve();
      return journal;
    } catch (error) {
      unlock?.();
      throw ioError(error, directory);
    }
  }

  get accepting(): boolean {
    return this.#accepting;
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  nameEndpoint(endpoint: EndpointIndex, key: string): void {
    this.#names.set(endpoint, key);
    this.#filling.name(endpoint, key);
  }

  append(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    source: Source,
    observedAtUs: number,
    initial: boolean,
  ): void {
    this.#filling.transition(seq, endpoint, status, source, observedAtUs, initial);
    this.#statuses.set(endpoint, status);
    this.#lastSeq = seq;
    this.#flushSoon();
  }

  committed(
    lane: number,
    cursor: Uint8Array,
    revision: number,
    endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
  ): void {
    this.#cursors.set(lane, cursor);
    this.#filling.committed(lane, cursor, revision, endpoints, seqs);
    this.#flushLater();
  }

  counters(counters: InterfaceCounters): void {
    const before = this.#counters.get(counters.ifindex);
    if (
      before !== undefined &&
      before.upCount === counters.upCount &&
      before.downCount === counters.downCount &&
      before.running === counters.running &&
      before.name === counters.name
    ) {
      return;
    }
    this.#counters.set(counters.ifindex, counters);
    this.#changedCounters.add(counters.ifindex);
    this.#flushLater();
  }

  settled(oldestPendingSeq: number): void {
    this.#oldestPendingSeq = oldestPendingSeq;
  }

  async flush(): Promise<void> {
    while (!this.#filling.empty || this.#changedCounters.size > 0 || this.#flushing !== null) {
      if (this.#failed || this.#full !== null) return;
      await (this.#flushing ?? this.#flush());
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    await this.flush();
    this.#closed = true;
    this.#clearTimers();
    if (this.#syncTimer !== null) clearInterval(this.#syncTimer);
    await this.#flushing;
    if (!this.#failed) await this.#file.datasync().catch(() => undefined); // what mattered was synced before
    await this.#file.close();
    this.#unlock();
  }

  /** Something must become durable: after this turn of the event loop, so that all of it goes together. */
  #flushSoon(): void {
    if (this.#flushing !== null || this.#soon !== null) return;
    this.#soon = setImmediate(() => {
      this.#soon = null;
      void this.#flush();
    });
  }

  #flushLater(): void {
    if (this.#flushing !== null || this.#soon !== null || this.#later !== null) return;
    this.#later = setTimeout(() => {
      this.#later = null;
      void this.#flush();
    }, lazyMs);
  }

  #clearTimers(): void {
    if (this.#soon !== null) clearImmediate(this.#soon);
    if (this.#later !== null) clearTimeout(this.#later);
    this.#soon = null;
    this.#later = null;
  }

  #flush(): Promise<void> {
    this.#flushing ??= this.#flushAll().finally(() => {
      this.#flushing = null;
    });
    return this.#flushing;
  }

  /** Writes as long as there is something that must become durable. Never rejects. */
  async #flushAll(): Promise<void> {
    do {
      if (this.#failed || this.#closed) return;
      const block = this.#filling;
      this.#filling = this.#spare;
      this.#spare = block;
      for (const ifindex of this.#changedCounters) block.counters(this.#counters.get(ifindex)!);
      this.#changedCounters.clear();
      if (block.empty) return;
      if (!(await this.#write(block))) return;
      block.clear();
    } while (this.#filling.lastSeq > 0);
    if (!this.#filling.empty) this.#flushLater();
  }

  /** False: it has failed for good. A full disk is waited for. */
  async #write(block: BlockBuilder): Promise<boolean> {
    const { sync, listener } = this.#options;
    for (;;) {
      const segment = this.#segments.at(-1)!;
      try {
        const bytes = block.seal(this.#synced);
        await writeAll(this.#file, bytes, segment.bytes);
        segment.bytes += bytes.length;
        if (block.lastSeq > 0) {
          segment.lastSeq = block.lastSeq;
          if (sync === 'always') await this.#sync(bytes.length);
          this.durableSeq = block.lastSeq;
          listener.durable(block.lastSeq);
        }
        if (segment.bytes >= this.#segmentBytes) await this.#rotate();
        this.#trim();
        await this.#spaceAgain();
        return true;
      } catch (error) {
        if (!isFull(error)) {
          this.#fail(error);
          return false;
        }
        await this.#onFull(error);
        if (this.#closed) return false;
      }
    }
  }

  async #sync(bytes: number): Promise<void> {
    const startedAtMs = performance.now();
    const upTo = this.#segments.at(-1)!.bytes;
    await this.#file.datasync();
    this.#synced = upTo;
    this.#options.listener.synced((performance.now() - startedAtMs) / 1000, bytes);
  }

  async #syncNow(): Promise<void> {
    if (
      this.#flushing !== null ||
      this.#failed ||
      this.#closed ||
      this.#synced === this.#segments.at(-1)!.bytes
    )
      return;
    try {
      await this.#sync(this.#segments.at(-1)!.bytes - this.#synced);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** A new segment: written, forced to disk and its directory too before it is used; the old one is whole by then. */
  async #rotate(): Promise<void> {
    const { directory, sync } = this.#options;
    if (sync !== 'never') await this.#file.datasync();
    const number = this.#segments.at(-1)!.number + 1;
    const created = await createSegment(directory, number, this.#checkpoint());
    const file = await open(join(directory, segmentName(number)), 'r+');
    const old = this.#file;
    this.#file = file;
    this.#segments.push(created);
    this.#synced = created.bytes;
    await old.close();
  }

  #checkpoint(): Buffer {
    const block = new BlockBuilder();
    // A number whose endpoint is gone and forgotten has no name any more; nothing pending can be its.
    for (const [endpoint, key] of this.#names) block.name(endpoint, key);
    for (const [endpoint, status] of this.#statuses) block.status(endpoint, status);
    for (const [lane, cursor] of this.#cursors) block.committed(lane, cursor, 0, [], []);
    for (const counters of this.#counters.values()) block.counters(counters);
    block.setLastSeq(this.#lastSeq);
    return Buffer.from(block.seal(headerBytes));
  }

  /** Deletes the oldest segments whose transitions are all settled, but for the history that is to be kept. */
  #trim(): void {
    const { directory, retainBytes, bytesMax } = this.#options;
    let { bytes } = this;
    while (this.#segments.length > 1) {
      const oldest = this.#segments[0]!;
      const pressed = this.#full !== null || bytes >= bytesMax;
      if (oldest.lastSeq >= this.#oldestPendingSeq || (!pressed && bytes - oldest.bytes < retainBytes)) break;
      this.#segments.shift();
      bytes -= oldest.bytes;
      void rm(join(directory, segmentName(oldest.number)), { force: true });
    }
    this.#judge();
  }

  async #onFull(error: unknown): Promise<void> {
    const { directory } = this.#options;
    if (this.#full === null) {
      this.#full = `the disk of ${directory} is full (${(error as NodeJS.ErrnoException).code})`;
      this.#judge();
      await rm(join(directory, 'reserve'), { force: true });
    }
    this.#trim();
    await this.#file.truncate(this.#segments.at(-1)!.bytes).catch(() => undefined); // the next try writes over it
    await new Promise((resolve) => setTimeout(resolve, retryFullMs).unref());
  }

  /** After a write that worked: is there room again, with the reserve put by? */
  async #spaceAgain(): Promise<void> {
    if (this.#full === null) return;
    const { bavail, bsize } = statfsSync(this.#options.directory);
    if (bavail * bsize < 2 * reserveBytes) return;
    await this.#makeReserve();
    this.#full = null;
    this.#judge();
  }

  async #makeReserve(): Promise<void> {
    const path = join(this.#options.directory, 'reserve');
    try {
      const file = await open(path, 'w', 0o600);
      await file.write(Buffer.alloc(reserveBytes), 0, reserveBytes, 0);
      await file.close();
    } catch (error) {
      if (!isFull(error)) throw error;
      await rm(path, { force: true });
    }
  }

  #judge(): void {
    const why =
      this.#full ?? (this.bytes >= this.#options.bytesMax ? 'it has reached journal.maxSize' : null);
    const accepting = why === null;
    if (accepting === this.#accepting) return;
    this.#accepting = accepting;
    this.#options.listener.accepting(accepting, why ?? '');
  }

  #fail(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#options.listener.failed(ioError(error, this.#options.directory));
  }
}

/** Forces the new file and its name to disk before anything depends on it. */
async function createSegment(directory: string, number: number, checkpoint?: Buffer): Promise<SegmentInfo> {
  const path = join(directory, segmentName(number));
  const content =
    checkpoint === undefined ? encodeHeader(number) : Buffer.concat([encodeHeader(number), checkpoint]);
  // Under another name first: a crash now leaves nothing that looks like a segment.
  const file = await open(`${path}.new`, 'w', 0o600);
  try {
    await writeAll(file, content, 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  await syncDirectory(directory);
  return { number, bytes: content.length, lastSeq: 0 };
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeAll(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  let written = 0;
  while (written < bytes.length) {
    written += (await file.write(bytes, written, bytes.length - written, position + written)).bytesWritten;
  }
}

function isFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT';
}

/** What is not of the journal's own making, with the directory and a way out. */
function ioError(error: unknown, directory: string): Error {
  const own = ['JOURNAL_LOCKED', 'JOURNAL_DAMAGED', 'JOURNAL_VERSION', 'JOURNAL_IO'];
  const { code, message } = error as NodeJS.ErrnoException;
  if (code !== undefined && own.includes(code)) return error as Error;
  return new JournalIoError(
    `the journal in ${directory} cannot be used: ${message}. Check the disk and the permissions, or choose another directory (--journal DIR)`,
    { cause: error },
  );
}
