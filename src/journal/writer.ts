/**
 * Group commit. Records gather in one buffer while what gathered before is written and forced to disk: one fdatasync
 * serves all that came meanwhile, so that its cost is latency and not throughput.
 *
 *     append ─► filling ─┐                       ┌─► write ─► fdatasync ─► durable
 *                        ├─ cycle: all of it ────┤
 *     committed ─► lazy ─┘  (after this turn,    └─► a new segment where the last is long, old ones deleted
 *                            or at most 100 ms)
 *
 * With the disk full, what has gathered is held, in memory, and what frees space goes on in the room of the reserve:
 * commits, checkpoints, deletions. It looks every half second whether there is room again.
 */
import type { JournalDirectory } from './directory.js';
import { ioError, isFull } from './errors.js';
import type { JournalListener } from './journal.js';
import { BlockBuilder, type RecordHandler } from './records.js';
import type { Segments } from './segments.js';
import type { JournalState } from './state.js';

export interface WriterOptions {
  /** always: before a transition counts as accepted. interval: every so often. never: when the kernel sees fit. */
  readonly sync: 'always' | 'interval' | 'never';
  readonly syncIntervalMs: number;
  readonly segmentBytes: number;
  /** Committed history that is kept. */
  readonly retainBytes: number;
  /** Above it, sources that can wait are not read. */
  readonly bytesMax: number;
  /** The same where the file system has less than this left. */
  readonly freeBytesMin: number;
  /** How often a full disk is looked at. */
  readonly retryMs: number;
  readonly listener: JournalListener;
}

export interface WriterParts {
  readonly directory: JournalDirectory;
  readonly segments: Segments;
  readonly state: JournalState;
  /** What the next segment begins with. */
  readonly checkpoint: () => BlockBuilder;
}

/** A block is closed at this size: what gathers in an hour of a full disk must not become one block. */
const blockBytesGoal = 2 ** 20;
/** What need not be durable waits this long for something that must be. */
const lazyMs = 100;
/** The free space is looked at once in so many milliseconds at most. */
const spaceCheckMs = 1000;

export class GroupWriter {
  durableSeq: number;
  readonly #options: WriterOptions;
  readonly #parts: WriterParts;
  #filling = new BlockBuilder();
  #spare: BlockBuilder | null = new BlockBuilder();
  /** Closed blocks, oldest first. */
  readonly #waiting: BlockBuilder[] = [];
  #lazy = new BlockBuilder();
  #cycle: Promise<void> | null = null;
  #soon: NodeJS.Immediate | null = null;
  #later: NodeJS.Timeout | null = null;
  #syncTimer: NodeJS.Timeout | null = null;
  #accepting = true;
  #full = false;
  #low = false;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #failed = false;
  #closed = false;
  /** What is in the files, as far as a checkpoint must not know more. */
  readonly #written: RecordHandler;

  constructor(options: WriterOptions, parts: WriterParts) {
    this.#options = options;
    this.#parts = parts;
    this.durableSeq = parts.state.lastSeq;
    const { transition, counters } = parts.state.handler;
    this.#written = { transition: transition!, counters: counters! };
    if (options.sync === 'interval')
      this.#syncTimer = setInterval(() => void this.#syncInterval(), options.syncIntervalMs).unref();
  }

  get accepting(): boolean {
    return this.#accepting;
  }

  /** Where to put what must become durable; soon() or later() has it written. */
  get block(): BlockBuilder {
    if (this.#filling.bytes >= blockBytesGoal) {
      this.#closeBlock();
    }
    return this.#filling;
  }

  /** Where to put what is true in etcd already: it may be lost. Called with the disk full for long, some of it is. */
  get lazyBlock(): BlockBuilder {
    if (this.#full && this.#lazy.bytes >= blockBytesGoal) this.#lazy.clear();
    return this.#lazy;
  }

  /** After this turn of the event loop, so that all of the turn goes together. */
  soon(): void {
    if (this.#cycle !== null || this.#soon !== null || this.#closed) return;
    this.#soon = setImmediate(() => {
      this.#soon = null;
      void this.#run();
    });
  }

  later(): void {
    if (this.#cycle !== null || this.#soon !== null || this.#later !== null || this.#closed) return;
    this.#later = setTimeout(
      () => {
        this.#later = null;
        void this.#run();
      },
      this.#full || this.#low ? this.#options.retryMs : lazyMs,
    );
  }

  /** Resolves when all of it is written, and durable where that is asked for; or cannot be, for now or for good. */
  async flush(): Promise<void> {
    while (!this.#failed && !this.#closed && !this.#full && (this.#cycle !== null || !this.#idle))
      await (this.#cycle ?? this.#run());
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    await this.flush();
    this.#closed = true;
    if (this.#soon !== null) clearImmediate(this.#soon);
    if (this.#later !== null) clearTimeout(this.#later);
    if (this.#syncTimer !== null) clearInterval(this.#syncTimer);
    await this.#cycle;
    try {
      // After a failure nothing is forced again: see Segments.sync().
      if (!this.#failed && this.#parts.segments.unsyncedBytes > 0) await this.#parts.segments.sync();
    } catch (error) {
      this.#fail(error);
    } finally {
      await this.#parts.segments.close();
    }
  }

  get #idle(): boolean {
    return this.#filling.empty && this.#lazy.empty && this.#waiting.length === 0;
  }

  /** Transitions wait. */
  get #urgent(): boolean {
    return this.#filling.lastSeq > 0 || this.#waiting.length > 0;
  }

  #run(): Promise<void> {
    this.#cycle ??= this.#cycles().finally(() => {
      this.#cycle = null;
      if (this.#failed || this.#closed) return;
      if (!this.#full && this.#urgent) this.soon();
      else if (this.#full || this.#low || !this.#idle) this.later();
    });
    return this.#cycle;
  }

  /** Never rejects. */
  async #cycles(): Promise<void> {
    try {
      do {
        if (this.#full) await this.#whileFull();
        if (this.#full) return;
        await this.#writeAll();
        await this.#keepHouse();
      } while (!this.#closed && !this.#full && this.#urgent);
    } catch (error) {
      this.#fail(error);
    }
  }

  async #writeAll(): Promise<void> {
    this.#filling.addAll(this.#lazy);
    this.#lazy.clear();
    this.#closeBlock();
    await this.#writeWaiting(async () => true);
  }

  #closeBlock(): void {
    if (this.#filling.empty) return;
    this.#waiting.push(this.#filling);
    this.#filling = this.#spare ?? new BlockBuilder();
    this.#spare = null;
  }

  /** Writes what waits, as long as `room` says that there is any for that block; then it is durable. */
  async #writeWaiting(room: (block: BlockBuilder) => Promise<boolean>): Promise<void> {
    const { segments } = this.#parts;
    let lastSeq = 0;
    while (this.#waiting.length > 0) {
      const block = this.#waiting[0]!;
      if (!(await room(block)) || !(await this.#fits(segments.write(block)))) break;
      block.read(this.#written);
      lastSeq = Math.max(lastSeq, block.lastSeq);
      this.#waiting.shift();
      block.clear();
      this.#spare ??= block;
    }
    if (lastSeq === 0) return;
    if (this.#options.sync === 'always') await this.#sync();
    this.durableSeq = lastSeq;
    this.#options.listener.durable(lastSeq);
  }

  async #sync(): Promise<void> {
    const { segments } = this.#parts;
    const bytes = segments.unsyncedBytes;
    const startedAtMs = performance.now();
    await segments.sync();
    this.#options.listener.synced((performance.now() - startedAtMs) / 1000, bytes);
  }

  async #syncInterval(): Promise<void> {
    if (this.#cycle !== null || this.#failed || this.#closed || this.#parts.segments.unsyncedBytes === 0)
      return;
    // As a cycle, so that none begins meanwhile, and close() waits for it.
    this.#cycle = this.#sync()
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#cycle = null;
        if (!this.#failed && !this.#idle) this.soon();
      });
    await this.#cycle;
  }

  /** A new segment where it is time, old ones deleted, the limits looked at. */
  async #keepHouse(): Promise<void> {
    const { segments, state, directory, checkpoint } = this.#parts;
    const { segmentBytes, retainBytes, freeBytesMin } = this.#options;
    // Where a checkpoint is long, more must come between two of them.
    if (segments.lastBytes >= Math.max(segmentBytes, 4 * segments.checkpointBytes))
      await this.#fits(segments.rotate(checkpoint()));
    await segments.trim(state.settledSeq, this.#atMax || this.#full ? 0 : retainBytes);
    const nowMs = performance.now();
    if (nowMs - this.#checkedAtMs >= spaceCheckMs || this.#low) {
      this.#checkedAtMs = nowMs;
      this.#low = (await directory.freeBytes()) < freeBytesMin;
    }
    this.#judge();
  }

  get #atMax(): boolean {
    const { segments } = this.#parts;
    return segments.bytes >= Math.max(this.#options.bytesMax, 16 * segments.checkpointBytes);
  }

  /** False: the disk is full, and what was to be written is held. */
  async #fits(writing: Promise<void>): Promise<boolean> {
    try {
      await writing;
      return true;
    } catch (error) {
      if (!isFull(error)) throw error;
      if (!this.#full) {
        this.#full = true;
        this.#judge();
        await this.#parts.segments.freeReserve();
      }
      return false;
    }
  }

  /** What frees space goes on, and what is held goes where there is room for it, behind the room of the reserve. */
  async #whileFull(): Promise<void> {
    const { segments, state, directory, checkpoint } = this.#parts;
    const free = async (bytes: number): Promise<boolean> =>
      (await directory.freeBytes()) >= segments.reserveBytes + bytes;
    // What etcd has is true without a record of it; the next checkpoint has the cursors.
    if (!this.#lazy.empty) await this.#fits(segments.write(this.#lazy));
    this.#lazy.clear();
    const worthIt = segments.lastSeq > 0 && segments.lastBytes > 2 * segments.checkpointBytes;
    if (worthIt && segments.lastSeq < state.settledSeq) await this.#fits(segments.rotate(checkpoint()));
    await segments.trim(state.settledSeq, 0);
    this.#closeBlock();
    await this.#writeWaiting((block) => free(block.bytes));
    if (this.#waiting.length > 0 || !(await free(blockBytesGoal / 2)) || !(await segments.makeReserve()))
      return;
    this.#full = false;
  }

  #judge(): void {
    const { bytesMax, freeBytesMin, listener } = this.#options;
    const { path } = this.#parts.directory;
    const why = this.#full
      ? `the disk of ${path} is full`
      : this.#low
        ? `the disk of ${path} has less than ${freeBytesMin} bytes left`
        : this.#atMax
          ? `the journal in ${path} has reached journal.maxSize (${bytesMax} bytes)`
          : null;
    const accepting = why === null;
    if (accepting === this.#accepting) return;
    this.#accepting = accepting;
    listener.accepting(accepting, why ?? '');
  }

  #fail(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#options.listener.failed(ioError(error, this.#parts.directory.path));
  }
}
