/**
 * A program that uses a journal until it has said what it was to say, or dies:
 *
 *     node journal-child.js DIR TRANSITIONS
 *
 * It appends so many transitions in small groups, over several segments, and settles most of them, so that segments
 * are made and deleted. One line each: `durable SEQ`, `failed CODE`, `end`. Lines are written synchronously: what the
 * parent has read is no more than what was true.
 */
import { writeSync } from 'node:fs';
import type { EndpointIndex } from '../../src/endpoints/id.js';
import { FileJournal } from '../../src/journal/file-journal.js';
import { append } from './journal.js';

const say = (line: string): void => {
  writeSync(1, `${line}\n`);
};

const [directory, count] = process.argv.slice(2);
const failed = (error: Error): never => {
  say(`failed ${(error as NodeJS.ErrnoException).code}`);
  process.exit(74);
};
const journal = await FileJournal.open({
  directory: directory!,
  sync: 'always',
  syncIntervalMs: 100,
  segmentBytes: 1500,
  retainBytes: 0,
  bytesMax: 2 ** 30,
  freeBytesMin: 0,
  reserveBytes: 4096,
  listener: {
    durable: (seq) => say(`durable ${seq}`),
    accepting: (accepting, why) => say(`accepting ${accepting} ${why}`),
    failed,
    synced: () => undefined,
  },
}).catch(failed);
for (let i = 0; i < 10; i++) journal.nameEndpoint(i as EndpointIndex, `/key/${i}`);
const first = journal.recovered.lastSeq + 1;
for (let seq = first; seq < first + Number(count); seq += 10) {
  append(journal, seq, 10);
  await journal.flush();
  journal.committed(0, Uint8Array.of(1, 2, 3), seq, [], [], []);
  journal.settled(seq - 40);
}
await journal.close();
say('end');
