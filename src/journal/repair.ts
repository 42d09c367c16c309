/**
 * Makes a damaged journal one that flapd starts on, with all that is good in it. What was there is put aside first, and
 * what is not there any more is told: whatever is missing of pending transitions, flapd's resync brings etcd to the
 * final states all the same.
 */
import type { JournalDirectory } from './directory.js';
import { JournalVersionError } from './errors.js';
import { blockHeaderBytes, segmentName } from './format.js';
import { BlockBuilder, type RecordHandler, readRecords } from './records.js';
import { scanSegment, segmentsIn } from './segment.js';
import { createSegment } from './segments.js';
import { JournalState } from './state.js';

export interface Repair {
  /** Segments that were put aside, as `from` under the name `to`. */
  readonly aside: { readonly from: string; readonly to: string }[];
  /** Segments of which nothing was left but their number. */
  readonly missing: string[];
  readonly transitions: number;
  /** Seqs that no segment has any more, between those that are there: lost, where they were ever given out. */
  readonly gaps: { readonly from: number; readonly to: number }[];
  /** Transitions left out since no segment says any more which endpoint they are of. */
  readonly nameless: number;
}

/** The caller has the lock. Throws a JournalVersionError where a segment is of a newer flapd; nothing is changed then. */
export async function repairJournal(directory: JournalDirectory, stamp: string): Promise<Repair> {
  const numbers = segmentsIn(directory);
  for (const number of numbers) {
    if (scanSegment(directory, number).header === 'newer')
      throw new JournalVersionError(
        `${segmentName(number)} was written by a newer flapd: repair it with that one`,
      );
  }
  const salvage = new Salvage();
  for (const number of numbers) salvage.learnNames(directory, number);
  const aside: { from: string; to: string }[] = [];
  const missing: string[] = [];
  for (let number = numbers[0] ?? 1; number <= (numbers.at(-1) ?? 0); number++) {
    const name = segmentName(number);
    const present = numbers.includes(number);
    if (!present) missing.push(name);
    const checkpoint = salvage.checkpoint();
    const { records, good } = present
      ? salvage.read(directory, number)
      : { records: new BlockBuilder(), good: false };
    if (good) continue;
    if (present) {
      const to = `damaged-${stamp}-${name}`;
      await copyAside(directory, name, to);
      aside.push({ from: name, to });
    }
    await createSegment(directory, number, checkpoint, ...(records.empty ? [] : [records]));
  }
  return { aside, missing, transitions: salvage.transitions, gaps: salvage.gaps, nameless: salvage.nameless };
}

class Salvage {
  transitions = 0;
  nameless = 0;
  readonly gaps: { from: number; to: number }[] = [];
  readonly #state = new JournalState();
  #lastSeq = 0;

  /** All that is known so far. */
  checkpoint(): BlockBuilder {
    const block = new BlockBuilder();
    this.#state.writeTo(block, () => false);
    return block;
  }

  /**
   * Names are told again at the head of every segment: what a bad block took of them is in a later one. A number
   * stands for one key in all that is kept.
   */
  learnNames(directory: JournalDirectory, number: number): void {
    const { bytes, blocks, beyond } = scanSegment(directory, number);
    const { name } = this.#state.handler;
    for (const { start, end } of [...blocks, ...beyond])
      readRecords(bytes, start + blockHeaderBytes, end, { name: name! });
  }

  /** The records of a segment's good blocks, but for what makes no sense without the bad ones. */
  read(directory: JournalDirectory, number: number): { records: BlockBuilder; good: boolean } {
    const { bytes, blocks, beyond, header, badAt } = scanSegment(directory, number);
    const records = new BlockBuilder();
    const { handler } = this.#state;
    const copying: RecordHandler = {
      ...handler,
      name: (endpoint, key) => {
        handler.name!(endpoint, key);
        records.name(endpoint, key);
      },
      transition: (seq, endpoint, status, source, observedAtUs, initial) => {
        if (seq <= this.#lastSeq) return;
        if (this.#state.names[endpoint] === undefined) {
          this.nameless++;
          return;
        }
        this.#reached(seq - 1);
        this.#lastSeq = seq;
        this.transitions++;
        handler.transition!(seq, endpoint, status, source, observedAtUs, initial);
        records.transition(seq, endpoint, status, source, observedAtUs, initial);
      },
      committed: (...committed) => {
        handler.committed!(...committed);
        records.committed(...committed);
      },
      counters: (counters) => {
        handler.counters!(counters);
        records.counters(counters);
      },
      status: (endpoint, status) => {
        handler.status!(endpoint, status);
        records.status(endpoint, status);
      },
      lastSeq: (seq) => {
        handler.lastSeq!(seq);
        this.#reached(seq);
      },
      settled: (seq) => {
        handler.settled!(seq);
        records.settled(seq);
      },
    };
    let readable = true;
    for (const { start, end } of [...blocks, ...beyond])
      readable = readRecords(bytes, start + blockHeaderBytes, end, copying) && readable;
    records.setLastSeq(this.#state.lastSeq);
    return { records, good: readable && header === null && badAt === null };
  }

  /** All up to this seq was there once: what has not been read of it is missing. */
  #reached(seq: number): void {
    if (this.#lastSeq > 0 && seq > this.#lastSeq) this.gaps.push({ from: this.#lastSeq + 1, to: seq });
    this.#lastSeq = Math.max(this.#lastSeq, seq);
  }
}

async function copyAside(directory: JournalDirectory, from: string, to: string): Promise<void> {
  const copy = await directory.open(to, true);
  try {
    await copy.write(directory.read(from), 0);
    await copy.datasync();
  } finally {
    await copy.close();
  }
  await directory.sync();
}
