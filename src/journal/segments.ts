/** The segments on disk as the writer sees them: the last one grows, new ones are begun, the oldest ones go. */
import type { JournalDirectory, JournalFile } from './directory.js';
import { ioError, isFull } from './errors.js';
import { encodeHeader, headerBytes, segmentName } from './format.js';
import type { BlockBuilder } from './records.js';
import type { Opened, SegmentInfo } from './recovery.js';

const reserveName = 'reserve';
/**
 * Given up when the disk is full, so that what frees space can still be written: a checkpoint above all. That of
 * 20,000 endpoints with keys of 150 bytes is 3.2 MB.
 */
export const reserveBytesDefault = 4 * 2 ** 20;

export class Segments {
  readonly #directory: JournalDirectory;
  readonly #infos: SegmentInfo[];
  #file: JournalFile;
  /** Of the last segment: everything before it is on disk. */
  #synced: number;
  #bytes: number;
  readonly reserveBytes: number;
  #reserved = false;
  /** Bytes of the last checkpoint: a segment that holds little more is not worth another one. */
  #checkpointBytes = 0;

  /** Opens the last one for writing, and makes the first one of a new journal. */
  static async open(
    directory: JournalDirectory,
    opened: Opened,
    checkpoint: BlockBuilder,
    reserveBytes: number,
  ): Promise<Segments> {
    const infos = [...opened.segments];
    if (infos.length === 0) infos.push(await createSegment(directory, 1, checkpoint));
    const file = await directory.open(segmentName(infos.at(-1)!.number), false);
    try {
      // What was read is what is built upon, and may not be on disk yet: its content, and the name that a crash left
      // unforced (the simulated disk found that one).
      await file.datasync();
      await directory.sync();
    } catch (error) {
      await file.close();
      throw error;
    }
    const segments = new Segments(directory, infos, file, reserveBytes);
    segments.#reserved = directory.list().includes(reserveName); // an earlier life's is as good
    return segments;
  }

  private constructor(
    directory: JournalDirectory,
    infos: SegmentInfo[],
    file: JournalFile,
    reserveBytes: number,
  ) {
    this.reserveBytes = reserveBytes;
    this.#directory = directory;
    this.#infos = infos;
    this.#file = file;
    this.#synced = this.#last.bytes;
    this.#bytes = infos.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Of the last segment. */
  get lastBytes(): number {
    return this.#last.bytes;
  }

  /** The highest seq in the last segment; 0: it has no transition. */
  get lastSeq(): number {
    return this.#last.lastSeq;
  }

  get unsyncedBytes(): number {
    return this.#last.bytes - this.#synced;
  }

  get checkpointBytes(): number {
    return this.#checkpointBytes;
  }

  /** Where it rejects, the segment ends where it ended before. */
  async write(block: BlockBuilder): Promise<void> {
    const bytes = block.seal(this.#synced);
    try {
      await this.#file.write(bytes, this.#last.bytes);
    } catch (error) {
      if (isFull(error)) await this.#file.truncate(this.#last.bytes); // a part of it may be there
      throw error;
    }
    this.#last.bytes += bytes.length;
    this.#bytes += bytes.length;
    if (block.lastSeq > 0) this.#last.lastSeq = block.lastSeq;
  }

  /**
   * Where it rejects, nobody knows what is on disk, whatever a second call would say: the kernel marks pages as clean
   * that it could not write (fsyncgate, 2018). The process must end, and read what there is at its next start.
   */
  async sync(): Promise<void> {
    const upTo = this.#last.bytes;
    try {
      await this.#file.datasync();
    } catch (error) {
      throw ioError(error, this.#directory.path); // ENOSPC too is final here
    }
    this.#synced = upTo;
  }

  /** Begins a new segment. The old one is forced to disk first: a torn tail is only looked for in the last one. */
  async rotate(checkpoint: BlockBuilder): Promise<void> {
    await this.sync();
    const created = await createSegment(this.#directory, this.#last.number + 1, checkpoint);
    const file = await this.#directory.open(segmentName(created.number), false);
    const old = this.#file;
    this.#file = file;
    this.#infos.push(created);
    this.#bytes += created.bytes;
    this.#synced = created.bytes;
    this.#checkpointBytes = created.bytes;
    await old.close();
  }

  /** Deletes the oldest segments with all their transitions settled, as long as more than so many bytes are left. */
  async trim(settledSeq: number, keepBytes: number): Promise<void> {
    while (this.#infos.length > 1) {
      const oldest = this.#infos[0]!;
      if (oldest.lastSeq >= settledSeq || this.#bytes - oldest.bytes < keepBytes) return;
      await this.#directory.remove(segmentName(oldest.number));
      this.#infos.shift();
      this.#bytes -= oldest.bytes;
    }
  }

  /** False: the disk has no room for it. */
  async makeReserve(): Promise<boolean> {
    if (this.#reserved) return true;
    let file: JournalFile | null = null;
    try {
      file = await this.#directory.open(reserveName, true); // a full disk may have no room for the name either
      await file.write(Buffer.alloc(this.reserveBytes), 0);
      this.#reserved = true;
    } catch (error) {
      if (!isFull(error)) throw error;
    } finally {
      await file?.close();
    }
    if (!this.#reserved) await this.#directory.remove(reserveName);
    return this.#reserved;
  }

  async freeReserve(): Promise<void> {
    await this.#directory.remove(reserveName);
    this.#reserved = false;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  get #last(): SegmentInfo {
    return this.#infos.at(-1)!;
  }
}

/** Under another name until it is whole: a crash leaves nothing that looks like a segment. */
export async function createSegment(
  directory: JournalDirectory,
  number: number,
  ...blocks: readonly BlockBuilder[]
): Promise<SegmentInfo> {
  const name = segmentName(number);
  let bytes = headerBytes;
  try {
    const file = await directory.open(`${name}.new`, true);
    try {
      await file.write(encodeHeader(number, Date.now()), 0);
      for (const block of blocks) {
        const sealed = block.seal(bytes);
        await file.write(sealed, bytes);
        bytes += sealed.length;
      }
      await file.datasync();
    } finally {
      await file.close();
    }
  } catch (error) {
    await directory.remove(`${name}.new`);
    throw error;
  }
  await directory.rename(`${name}.new`, name);
  await directory.sync();
  return { number, bytes, lastSeq: blocks.reduce((last, block) => Math.max(last, block.lastSeq), 0) };
}
