/** The journal in files: format.ts has their layout, writer.ts the way of the data, recovery.ts the start. */
import { mkdirSync } from 'node:fs';
import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';
import { type JournalDirectory, RealDirectory } from './directory.js';
import { ioError } from './errors.js';
import type { InterfaceCounters, Journal, JournalListener, Recovered } from './journal.js';
import { lockJournal } from './lock.js';
import { BlockBuilder } from './records.js';
import { type Opened, openSegments } from './recovery.js';
import { reserveBytesDefault, Segments } from './segments.js';
import type { JournalState } from './state.js';
import { GroupWriter, type WriterOptions } from './writer.js';

export interface FileJournalOptions {
  readonly directory: string;
  readonly sync: WriterOptions['sync'];
  readonly syncIntervalMs: number;
  readonly segmentBytes?: number;
  /** Committed history that is kept. */
  readonly retainBytes: number;
  /** Above it, sources that can wait are not read. */
  readonly bytesMax: number;
  /** The same where the file system has less than this left. */
  readonly freeBytesMin?: number;
  /** How often a full disk is looked at. */
  readonly retryMs?: number;
  /** Of the file that is given up when the disk is full. */
  readonly reserveBytes?: number;
  readonly listener: JournalListener;
}

const segmentBytesDefault = 16 * 2 ** 20;
const segmentBytesMin = 64 * 1024;
const freeBytesMinDefault = 32 * 2 ** 20;

export class FileJournal implements Journal {
  readonly recovered: Recovered;
  /** Bytes of a torn tail that were cut at the start; 0: there was none. */
  readonly cutBytes: number;
  readonly #writer: GroupWriter;
  readonly #segments: Segments;
  readonly #state: JournalState;
  readonly #unlock: () => void;
  #closing: Promise<void> | null = null;
  /** By endpoint: the highest seq appended, written or not. */
  #appendedSeqs = new Float64Array(1024);
  /** By endpoint: 1 where the last checkpoint left its name out. */
  #forgotten = new Uint8Array(1024);

  /** Rejects with a JournalIoError, JournalLockedError, JournalDamagedError or JournalVersionError. */
  static async open(options: FileJournalOptions): Promise<FileJournal> {
    let unlock: (() => void) | null = null;
    try {
      mkdirSync(options.directory, { recursive: true, mode: 0o700 });
      unlock = lockJournal(options.directory);
      return await FileJournal.openIn(new RealDirectory(options.directory), options, unlock);
    } catch (error) {
      unlock?.();
      throw ioError(error, options.directory);
    }
  }

  /** In any directory, and without a lock: open() is for all but tests. */
  static async openIn(
    directory: JournalDirectory,
    options: Omit<FileJournalOptions, 'directory'>,
    unlock: () => void = () => undefined,
  ): Promise<FileJournal> {
    const opened = await openSegments(directory);
    const segments = await Segments.open(
      directory,
      opened,
      checkpointOf(opened.state),
      options.reserveBytes ?? reserveBytesDefault,
    );
    try {
      await segments.makeReserve();
    } catch (error) {
      await segments.close();
      throw error;
    }
    return new FileJournal(directory, options, opened, segments, unlock);
  }

  private constructor(
    directory: JournalDirectory,
    options: Omit<FileJournalOptions, 'directory'>,
    opened: Opened,
    segments: Segments,
    unlock: () => void,
  ) {
    this.recovered = opened.recovered;
    this.cutBytes = opened.cutBytes;
    this.#state = opened.state;
    this.#segments = segments;
    this.#unlock = unlock;
    const { bytesMax, sync, syncIntervalMs, retainBytes, listener } = options;
    this.#writer = new GroupWriter(
      {
        sync,
        syncIntervalMs,
        retainBytes,
        bytesMax,
        listener,
        // Only whole segments are deleted: a small journal wants small ones.
        segmentBytes:
          options.segmentBytes ?? Math.max(segmentBytesMin, Math.min(segmentBytesDefault, bytesMax / 8)),
        freeBytesMin: options.freeBytesMin ?? freeBytesMinDefault,
        retryMs: options.retryMs ?? 500,
      },
      { directory, segments, state: opened.state, checkpoint: () => this.#checkpoint() },
    );
    opened.state.names.forEach((_, i) => {
      const endpoint = i as EndpointIndex;
      this.#setAppended(endpoint, opened.state.lastSeqOf(endpoint));
      // Perhaps only a segment that is about to go has its name.
      if (opened.state.isGone(endpoint)) this.#forgotten[endpoint] = 1;
    });
  }

  get durableSeq(): number {
    return this.#writer.durableSeq;
  }

  get accepting(): boolean {
    return this.#writer.accepting;
  }

  get bytes(): number {
    return this.#segments.bytes;
  }

  nameEndpoint(endpoint: EndpointIndex, key: string): void {
    this.#state.names[endpoint] = key;
    this.#writer.block.name(endpoint, key);
  }

  /** The hot path: 44 ns (docs/decisions/001-journal-store.md). */
  append(
    seq: number,
    endpoint: EndpointIndex,
    status: Status,
    source: Source,
    observedAtUs: number,
    initial: boolean,
  ): void {
    const { block } = this.#writer;
    this.#setAppended(endpoint, seq);
    if (this.#forgotten[endpoint] === 1) {
      this.#forgotten[endpoint] = 0;
      block.name(endpoint, this.#state.names[endpoint]!);
    }
    block.transition(seq, endpoint, status, source, observedAtUs, initial);
    this.#writer.soon();
  }

  committed(
    lane: number,
    cursor: Uint8Array,
    revision: number,
    endpoints: readonly EndpointIndex[],
    seqs: readonly number[],
    confirm: readonly boolean[],
  ): void {
    this.#state.cursors.set(lane, cursor);
    this.#writer.lazyBlock.committed(lane, cursor, revision, Date.now() * 1000, endpoints, seqs, confirm);
    this.#writer.later();
  }

  settled(oldestPendingSeq: number): void {
    if (oldestPendingSeq <= this.#state.settledSeq) return;
    this.#state.settledSeq = oldestPendingSeq;
    this.#writer.lazyBlock.settled(oldestPendingSeq);
    this.#writer.later();
  }

  counters(counters: InterfaceCounters): void {
    if (sameCounters(this.#state.counters.get(counters.ifindex), counters)) return;
    // Among the transitions that were derived from them, never before those: else a crash between would lose these.
    this.#writer.block.counters(counters);
    this.#writer.later();
  }

  flush(): Promise<void> {
    return this.#writer.flush();
  }

  /** What is held because the disk is full is lost: it was never said to be accepted. */
  close(): Promise<void> {
    this.#closing ??= this.#writer.close().finally(this.#unlock);
    return this.#closing;
  }

  /** Leaves out endpoints that are gone; one that comes back after all is named again by append(). */
  #checkpoint(): BlockBuilder {
    const { settledSeq } = this.#state;
    return checkpointOf(this.#state, (endpoint) => {
      const gone = this.#state.isGone(endpoint) && (this.#appendedSeqs[endpoint] ?? 0) < settledSeq;
      if (gone) this.#forgotten[endpoint] = 1;
      return gone;
    });
  }

  #setAppended(endpoint: EndpointIndex, seq: number): void {
    if (endpoint >= this.#appendedSeqs.length) {
      const length = Math.max(endpoint + 1, 2 * this.#appendedSeqs.length);
      this.#appendedSeqs = copyInto(new Float64Array(length), this.#appendedSeqs);
      this.#forgotten = copyInto(new Uint8Array(length), this.#forgotten);
    }
    this.#appendedSeqs[endpoint] = seq;
  }
}

function checkpointOf(
  state: JournalState,
  forgotten: (endpoint: EndpointIndex) => boolean = () => false,
): BlockBuilder {
  const block = new BlockBuilder();
  state.writeTo(block, forgotten);
  return block;
}

function sameCounters(a: InterfaceCounters | undefined, b: InterfaceCounters): boolean {
  return (
    a !== undefined &&
    a.upCount === b.upCount &&
    a.downCount === b.downCount &&
    a.running === b.running &&
    a.name === b.name
  );
}

function copyInto<T extends Float64Array | Uint8Array>(to: T, from: T): T {
  to.set(from);
  return to;
}
