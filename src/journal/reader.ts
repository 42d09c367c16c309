/** Reads a journal without touching it, also while a daemon writes to it: for commands. */
import type { EndpointIndex } from '../endpoints/id.js';
import type { Source, Status } from '../endpoints/status.js';
import type { JournalDirectory } from './directory.js';
import { blockHeaderBytes, segmentName } from './format.js';
import { type RecordHandler, readRecords } from './records.js';
import { isTornTail, type Scan, scanSegment, segmentsIn } from './segment.js';

export interface SegmentReport {
  readonly file: string;
  readonly number: number;
  readonly bytes: number;
  readonly blocks: number;
  readonly firstSeq: number;
  /** 0: no transition is in it. */
  readonly lastSeq: number;
  readonly transitions: number;
  /** torn: the end of what was being written, which the next start cuts. */
  readonly state: 'good' | 'torn' | 'damaged' | 'newer' | 'missing';
  /** Where that begins; null: nowhere. */
  readonly badAt: number | null;
}

/** Records of all good blocks, in order, damaged ones passed over; and what was seen of each segment. */
export function readJournal(directory: JournalDirectory, handler: RecordHandler): SegmentReport[] {
  const numbers = segmentsIn(directory);
  const reports: SegmentReport[] = [];
  for (const [i, number] of numbers.entries()) {
    for (let missing = (numbers[i - 1] ?? number - 1) + 1; missing < number; missing++)
      reports.push(missingReport(missing));
    const scan = tryScan(directory, number);
    if (scan === null) {
      // Deleted since the list was made: it was settled.
      reports.length = 0;
      continue;
    }
    reports.push(readSegment(scan, number, i === numbers.length - 1, handler));
  }
  return reports;
}

function tryScan(directory: JournalDirectory, number: number): Scan | null {
  try {
    return scanSegment(directory, number);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function readSegment(scan: Scan, number: number, last: boolean, handler: RecordHandler): SegmentReport {
  let firstSeq = 0;
  let lastSeq = 0;
  let transitions = 0;
  const counting: RecordHandler = {
    ...handler,
    transition: (seq, ...rest) => {
      if (firstSeq === 0) firstSeq = seq;
      lastSeq = seq;
      transitions++;
      handler.transition?.(seq, ...rest);
    },
  };
  const good = [...scan.blocks, ...(isTornTail(scan) && last ? [] : scan.beyond)];
  let unreadableAt: number | null = null;
  if (scan.header !== 'newer') {
    for (const { start, end } of good)
      if (!readRecords(scan.bytes, start + blockHeaderBytes, end, counting)) unreadableAt ??= start;
  }
  const badAt = scan.header !== null ? 0 : (scan.badAt ?? unreadableAt);
  return {
    file: segmentName(number),
    number,
    bytes: scan.bytes.length,
    blocks: good.length,
    firstSeq,
    lastSeq,
    transitions,
    state: stateOf(scan, last, unreadableAt !== null),
    badAt,
  };
}

function stateOf(scan: Scan, last: boolean, unreadable: boolean): SegmentReport['state'] {
  if (scan.header === 'newer') return 'newer';
  if (scan.header !== null || unreadable) return 'damaged';
  if (scan.badAt === null) return 'good';
  return last && isTornTail(scan) ? 'torn' : 'damaged';
}

function missingReport(number: number): SegmentReport {
  const nothing = { bytes: 0, blocks: 0, firstSeq: 0, lastSeq: 0, transitions: 0 };
  return { file: segmentName(number), number, ...nothing, state: 'missing', badAt: null };
}

/** One transition as people see it. */
export interface HistoryEntry {
  readonly seq: number;
  readonly key: string;
  readonly status: Status;
  readonly source: Source;
  readonly observedAtUs: number;
  /** etcd's revision; null: none is known. */
  readonly revision: number | null;
  /** Not known to be committed. */
  readonly pending: boolean;
}

/** What is in etcd already, by the journal's own account. An endpoint's transitions are committed in their order. */
export class Committedness {
  #settledSeq = 0;
  readonly #upTo = new Map<EndpointIndex, number>();

  readonly handler: RecordHandler = {
    committed: (_lane, _cursor, _revision, _atUs, endpoints, seqs) => {
      endpoints.forEach((endpoint, i) => {
        const seq = seqs[i]!;
        if (seq > (this.#upTo.get(endpoint) ?? 0)) this.#upTo.set(endpoint, seq);
      });
    },
    settled: (seq) => {
      this.#settledSeq = Math.max(this.#settledSeq, seq);
    },
  };

  has(endpoint: EndpointIndex, seq: number): boolean {
    return seq < this.#settledSeq || seq <= (this.#upTo.get(endpoint) ?? 0);
  }
}

/** The last `limit` transitions of the endpoints whose key fits, oldest first. */
export function historyOf(
  directory: JournalDirectory,
  fits: (key: string) => boolean,
  limit: number,
): HistoryEntry[] {
  const names = new Map<EndpointIndex, string>();
  const wanted = new Map<EndpointIndex, boolean>();
  const committed = new Committedness();
  const found: (Omit<HistoryEntry, 'revision' | 'pending'> & { endpoint: EndpointIndex })[] = [];
  const revisions = new Map<number, number>();
  readJournal(directory, {
    ...committed.handler,
    name: (endpoint, key) => {
      if (names.get(endpoint) === key) return;
      names.set(endpoint, key);
      wanted.set(endpoint, fits(key));
    },
    transition: (seq, endpoint, status, source, observedAtUs) => {
      if (wanted.get(endpoint) !== true) return;
      found.push({ seq, endpoint, key: names.get(endpoint)!, status, source, observedAtUs });
      if (found.length >= 2 * limit)
        for (const { seq: gone } of found.splice(0, limit)) revisions.delete(gone);
    },
    committed: (lane, cursor, revision, atUs, endpoints, seqs, confirm) => {
      committed.handler.committed!(lane, cursor, revision, atUs, endpoints, seqs, confirm);
      for (let i = 0; i < endpoints.length; i++)
        if (wanted.get(endpoints[i]!) === true) revisions.set(seqs[i]!, revision);
    },
  });
  return found.slice(-limit).map(({ endpoint, ...entry }) => ({
    ...entry,
    revision: revisions.get(entry.seq) ?? null,
    pending: !committed.has(endpoint, entry.seq),
  }));
}
