/** Journals in temporary directories, and what is in them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EndpointIndex } from '../../src/endpoints/id.js';
import { Source, type Status } from '../../src/endpoints/status.js';
import { FileJournal, type FileJournalOptions } from '../../src/journal/file-journal.js';

export interface Entry {
  readonly seq: number;
  readonly endpoint: number;
  readonly status: Status;
  readonly initial: boolean;
}

export class Listener {
  durableSeq = 0;
  syncs = 0;
  failure: Error | null = null;
  readonly accepting_: { accepting: boolean; why: string }[] = [];

  durable(seq: number): void {
    this.durableSeq = seq;
  }

  accepting(accepting: boolean, why: string): void {
    this.accepting_.push({ accepting, why });
  }

  failed(error: Error): void {
    this.failure = error;
  }

  synced(): void {
    this.syncs++;
  }
}

export function temporaryFolder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'flapd-journal-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export function openJournal(
  directory: string,
  options: Partial<FileJournalOptions> & { listener?: Listener } = {},
): Promise<FileJournal> {
  return FileJournal.open({
    directory,
    sync: 'always',
    syncIntervalMs: 100,
    retainBytes: 64 * 2 ** 20,
    bytesMax: 2 ** 30,
    listener: new Listener(),
    ...options,
  });
}

export function entriesOf(journal: FileJournal): Entry[] {
  const entries: Entry[] = [];
  journal.recovered.forEach((seq, endpoint, status, _source, _atUs, initial) => {
    entries.push({ seq, endpoint, status, initial });
  });
  return entries;
}

/** Appends so many transitions of ten endpoints, the first with this seq. */
export function append(journal: FileJournal, firstSeq: number, count: number): Entry[] {
  return Array.from({ length: count }, (_, i) => {
    const seq = firstSeq + i;
    const endpoint = (seq % 10) as EndpointIndex;
    const entry: Entry = {
      seq,
      endpoint,
      status: ((Math.floor(seq / 10) % 2) + 1) as Status,
      initial: seq % 7 === 0,
    };
    journal.append(seq, endpoint, entry.status, Source.felix, seq * 1000, entry.initial);
    return entry;
  });
}
