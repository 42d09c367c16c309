/** What a journal holds when it is opened, after its torn tail has been cut. */
import { join } from 'node:path';
import type { EndpointIndex } from '../endpoints/id.js';
import type { Status } from '../endpoints/status.js';
import type { JournalDirectory } from './directory.js';
import { JournalDamagedError, JournalVersionError } from './errors.js';
import { blockHeaderBytes, formatVersion, segmentName } from './format.js';
import type { InterfaceCounters, Recovered } from './journal.js';
import { type RecordHandler, readRecords } from './records.js';
import { isTornTail, type Scan, scanSegment, segmentsIn } from './segment.js';
import { JournalState } from './state.js';

export interface SegmentInfo {
  readonly number: number;
  bytes: number;
  /** The highest seq of its transitions; 0: it has none. */
  lastSeq: number;
}

export interface Opened {
  readonly recovered: Recovered;
  readonly state: JournalState;
  readonly segments: SegmentInfo[];
  /** Bytes of a torn tail that were cut; 0: none. */
  readonly cutBytes: number;
}

/** Throws a JournalDamagedError or JournalVersionError, and has changed nothing then. Cuts a torn tail. */
export async function openSegments(directory: JournalDirectory): Promise<Opened> {
  const numbers = segmentsIn(directory);
  assertNoGap(directory.path, numbers);
  const segments: SegmentInfo[] = [];
  const state = new JournalState();
  let torn: Scan | null = null;
  for (const [i, number] of numbers.entries()) {
    const scan = scanSegment(directory, number);
    if (scan.header !== null || scan.badAt !== null) {
      assertTornTail(directory.path, number, scan, i === numbers.length - 1);
      torn = scan;
    }
    const info: SegmentInfo = { number, bytes: scan.badAt ?? scan.bytes.length, lastSeq: 0 };
    const handler: RecordHandler = {
      ...state.handler,
      transition: (seq, endpoint, status, source, observedAtUs, initial) => {
        info.lastSeq = seq;
        state.handler.transition!(seq, endpoint, status, source, observedAtUs, initial);
      },
    };
    for (const { start, end } of scan.blocks) {
      if (!readRecords(scan.bytes, start + blockHeaderBytes, end, handler))
        throw damaged(directory.path, number, start, 'it holds a record that no flapd writes');
    }
    segments.push(info);
  }
  if (torn !== null) await cutTail(directory, segments.at(-1)!);
  await removeUnfinished(directory);
  return {
    recovered: new RecoveredJournal(directory, state, segments),
    state,
    segments,
    cutBytes: torn === null ? 0 : torn.bytes.length - torn.badAt!,
  };
}

function assertNoGap(path: string, numbers: readonly number[]): void {
  for (let i = 1; i < numbers.length; i++) {
    const missing = numbers[i - 1]! + 1;
    if (numbers[i] !== missing) throw damaged(path, missing, 0, 'the file is missing');
  }
}

function assertTornTail(path: string, number: number, scan: Scan, last: boolean): void {
  if (scan.header === 'newer') {
    throw new JournalVersionError(
      `${join(path, segmentName(number))} was written by a newer flapd than this one, which reads version ${formatVersion}. ` +
        'It is left as it is. Start the newer flapd, or move the journal away (what is pending in it is lost then)',
    );
  }
  if (scan.header !== null) throw damaged(path, number, 0, 'its header is not what was written');
  if (!last || !isTornTail(scan))
    throw damaged(path, number, scan.badAt!, 'what is there is not what was written');
}

function damaged(path: string, number: number, offset: number, why: string): JournalDamagedError {
  return new JournalDamagedError(
    `the journal is damaged: ${join(path, segmentName(number))}, byte ${offset}: ${why}. ` +
      'flapd does not start on it, since it cannot know what is missing. To save all that is good, and see what is not: ' +
      `flapd journal repair --dir ${path}`,
  );
}

/** Forced to disk: were the tail to come back after the next power cut, it would be in the middle. */
async function cutTail(directory: JournalDirectory, { number, bytes }: SegmentInfo): Promise<void> {
  const file = await directory.open(segmentName(number), false);
  try {
    await file.truncate(bytes);
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** Segments that a crash kept from being finished: nothing is in them that is not elsewhere. */
async function removeUnfinished(directory: JournalDirectory): Promise<void> {
  for (const name of directory.list())
    if (/^journal-\d{10}\.log\.new$/.test(name)) await directory.remove(name);
}

class RecoveredJournal implements Recovered {
  readonly endpoints = new Map<EndpointIndex, string>();
  readonly statuses = new Map<EndpointIndex, Status>();
  readonly cursors: ReadonlyMap<number, Uint8Array>;
  readonly counters: readonly InterfaceCounters[];
  readonly unconfirmed: readonly EndpointIndex[];
  readonly lastSeq: number;
  readonly #directory: JournalDirectory;
  readonly #settledSeq: number;
  /** As they were then: what is appended later is not recovered. */
  readonly #segments: readonly Readonly<SegmentInfo>[];

  constructor(directory: JournalDirectory, state: JournalState, segments: readonly SegmentInfo[]) {
    this.#directory = directory;
    this.#segments = segments.map((info) => ({ ...info }));
    this.#settledSeq = state.settledSeq;
    state.names.forEach((name, i) => {
      const endpoint = i as EndpointIndex;
      if (name === undefined) return;
      this.endpoints.set(endpoint, name);
      const status = state.status(endpoint);
      if (status !== undefined) this.statuses.set(endpoint, status);
    });
    this.cursors = new Map(state.cursors);
    this.counters = [...state.counters.values()];
    this.unconfirmed = state.unconfirmed;
    this.lastSeq = state.lastSeq;
  }

  /** Reads the files once more, one at a time: a million pending transitions need not be in memory twice. */
  forEach(callback: Parameters<Recovered['forEach']>[0]): void {
    const settled = this.#settledSeq;
    const handler: RecordHandler = {
      transition: (seq, endpoint, status, source, observedAtUs, initial) => {
        if (seq >= settled) callback(seq, endpoint, status, source, observedAtUs, initial);
      },
    };
    for (const { number, bytes: known, lastSeq } of this.#segments) {
      if (lastSeq < settled) continue;
      const { bytes, blocks } = scanSegment(this.#directory, number);
      for (const { start, end } of blocks)
        if (end <= known) readRecords(bytes, start + blockHeaderBytes, end, handler);
    }
  }
}
