/** What a journal holds when it is opened, after its torn tail has been cut. */
import { closeSync, fdatasyncSync, ftruncateSync, openSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { EndpointIndex } from '../endpoints/id.js';
import type { Status } from '../endpoints/status.js';
import { blockHeaderBytes, formatVersion, type RecordHandler, readRecords, segmentName } from './format.js';
import type { InterfaceCounters, Recovered } from './journal.js';
import { isTornTail, type Scan, scanSegment, segmentsIn } from './segment.js';

export class JournalDamagedError extends Error {
  readonly code = 'JOURNAL_DAMAGED';
}

/** Written by a newer flapd: left untouched. */
export class JournalVersionError extends Error {
  readonly code = 'JOURNAL_VERSION';
}

export interface SegmentInfo {
  readonly number: number;
  bytes: number;
  /** The highest seq of its transitions; 0: it has none. */
  lastSeq: number;
}

export interface Opened {
  readonly recovered: Recovered;
  readonly segments: SegmentInfo[];
  /** Bytes of a torn tail that were cut; 0: none. */
  readonly cutBytes: number;
}

/** Throws a JournalDamagedError or JournalVersionError. Cuts a torn tail, and forces the cut to disk. */
export function openSegments(directory: string): Opened {
  const numbers = segmentsIn(directory);
  const segments: SegmentInfo[] = [];
  const state = new RecoveredState(directory);
  let cutBytes = 0;
  numbers.forEach((number, i) => {
    const scan = scanSegment(directory, number);
    const last = i === numbers.length - 1;
    if (scan.badAt !== null) {
      assertUsable(directory, number, scan, last);
      cutBytes += cut(directory, number, scan);
      if (scan.header !== null) return; // it was being created: nothing is in it
    }
    const info: SegmentInfo = { number, bytes: scan.badAt ?? scan.bytes.length, lastSeq: 0 };
    for (const { start, end } of scan.blocks) {
      const known = readRecords(scan.bytes, start + blockHeaderBytes, end, {
        ...state.handler,
        transition: (seq, endpoint, status, source, observedAtUs, initial) => {
          info.lastSeq = seq;
          state.handler.transition!(seq, endpoint, status, source, observedAtUs, initial);
        },
      });
      if (!known) throw new JournalVersionError(versionText(directory, number));
    }
    segments.push(info);
    state.numbers.push(number);
  });
  return { recovered: state, segments, cutBytes };
}

function assertUsable(directory: string, number: number, scan: Scan, last: boolean): void {
  if (scan.header === 'newer') throw new JournalVersionError(versionText(directory, number));
  if (last && isTornTail(scan)) return;
  throw new JournalDamagedError(
    `${join(directory, segmentName(number))} is damaged at byte ${scan.badAt}: what is there is not what was written. ` +
      'flapd does not start on it, since it cannot know what is missing. To save all that is good, and see what is not: ' +
      `flapd journal repair --dir ${directory}`,
  );
}

function versionText(directory: string, number: number): string {
  return (
    `${join(directory, segmentName(number))} was written by a newer flapd than this one, which reads version ${formatVersion}: ` +
    'it is left as it is. Start the newer flapd, or move the journal away (what is pending in it is lost then)'
  );
}

function cut(directory: string, number: number, scan: Scan): number {
  const path = join(directory, segmentName(number));
  if (scan.header !== null) {
    unlinkSync(path);
    return scan.bytes.length;
  }
  const fd = openSync(path, 'r+');
  ftruncateSync(fd, scan.badAt!);
  fdatasyncSync(fd);
  closeSync(fd);
  return scan.bytes.length - scan.badAt!;
}

class RecoveredState implements Recovered {
  readonly endpoints = new Map<EndpointIndex, string>();
  readonly statuses = new Map<EndpointIndex, Status>();
  readonly cursors = new Map<number, Uint8Array>();
  lastSeq = 0;
  readonly numbers: number[] = [];
  readonly #directory: string;
  readonly #counters = new Map<number, InterfaceCounters>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  get counters(): InterfaceCounters[] {
    return [...this.#counters.values()];
  }

  readonly handler: RecordHandler = {
    transition: (seq, endpoint, status) => {
      this.statuses.set(endpoint, status);
      this.lastSeq = Math.max(this.lastSeq, seq);
    },
    name: (endpoint, key) => {
      this.endpoints.set(endpoint, key);
    },
    committed: (lane, cursor) => {
      this.cursors.set(lane, cursor);
    },
    counters: (counters) => {
      this.#counters.set(counters.ifindex, counters);
    },
    status: (endpoint, status) => {
      this.statuses.set(endpoint, status);
    },
    lastSeq: (seq) => {
      this.lastSeq = Math.max(this.lastSeq, seq);
    },
  };

  /** Reads the files once more, one at a time: a million pending transitions need not be in memory twice. */
  forEach(callback: Parameters<Recovered['forEach']>[0]): void {
    for (const number of this.numbers) {
      const { bytes, blocks } = scanSegment(this.#directory, number);
      for (const { start, end } of blocks)
        readRecords(bytes, start + blockHeaderBytes, end, { transition: callback });
    }
  }
}
