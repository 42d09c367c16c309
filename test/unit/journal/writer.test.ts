/** What the writer does about a disk that fails, and what it writes at the head of a segment. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Source, Status } from '../../../src/endpoints/status.js';
import { FileJournal, type FileJournalOptions } from '../../../src/journal/file-journal.js';
import { readJournal } from '../../../src/journal/reader.js';
import { append, entriesOf, Listener } from '../../support/journal.js';
import { SimulatedDisk } from '../../support/simulated-disk.js';
import { until } from '../../support/waiting.js';

const mebi = 2 ** 20;
const number = (n: number): EndpointIndex => n as EndpointIndex;

function open(disk: SimulatedDisk, options: Partial<FileJournalOptions> & { listener?: Listener } = {}) {
  return FileJournal.openIn(disk, {
    sync: 'always',
    syncIntervalMs: 5,
    segmentBytes: 1000,
    retainBytes: 0,
    bytesMax: 2 ** 30,
    freeBytesMin: 0,
    reserveBytes: 64,
    retryMs: 5,
    listener: new Listener(),
    ...options,
  });
}

function systemError(code: string, syscall: string): Error {
  return Object.assign(new Error(`${code}: it does not work, ${syscall}`), { code, syscall });
}

describe('a disk that fails', () => {
  for (const [code, operation] of [
    ['EIO', 'datasync'],
    ['ENOSPC', 'datasync'], // of a file system that finds out late: the pages may be gone
    ['EIO', 'write'],
    ['EROFS', 'write'],
  ] as const) {
    it(`ends it (${code} of ${operation}): once, with no sync after it, and nothing more is durable`, async () => {
      const disk = new SimulatedDisk(Math.random);
      const listener = new Listener();
      const journal = await open(disk, { listener });
      const entries = append(journal, 1, 10);
      await journal.flush();
      const operations: string[] = [];
      let failing = true;
      disk.before = (one) => {
        operations.push(one);
        if (failing && one === operation) {
          failing = false; // the next one would work, and would lie
          throw systemError(code, operation);
        }
      };
      append(journal, 11, 10);
      await journal.flush();
      assert.equal((listener.failure as NodeJS.ErrnoException | null)?.code, 'JOURNAL_IO');
      assert.match(listener.failure!.message, new RegExp(code));
      const count = operations.length;
      append(journal, 21, 10);
      await journal.flush();
      await journal.close();
      assert.equal(operations.length, count, 'the disk was not touched again');
      assert.equal(journal.durableSeq, 10);
      disk.before = () => undefined;
      const got = entriesOf(await open(disk.powerCut()));
      assert.deepEqual(got.slice(0, 10), entries);
    });
  }

  it('is waited for where it is full in the middle of a new segment, and nothing is written twice', async () => {
    const disk = new SimulatedDisk(Math.random);
    const listener = new Listener();
    const journal = await open(disk, { listener, bytesMax: 2 ** 30 });
    journal.nameEndpoint(number(1), '/key/1');
    let full = true;
    disk.before = (one) => {
      if (full && one === 'open') throw systemError('ENOSPC', 'open'); // no room for one more file
    };
    const entries = append(journal, 1, 200);
    await until('it to be full', () => !journal.accepting);
    full = false;
    disk.capacityBytes = 64 * mebi;
    await until('it to go on', () => journal.accepting);
    entries.push(...append(journal, 201, 10));
    await journal.close();
    assert.equal(listener.failure, null);
    assert.deepEqual(entriesOf(await open(disk)), entries);
  });
});

describe('limits', () => {
  it('it takes all that comes again as soon as etcd has taken enough, without another append', async () => {
    const listener = new Listener();
    const journal = await open(new SimulatedDisk(Math.random), { listener, bytesMax: 8000 });
    append(journal, 1, 1000);
    await journal.flush();
    assert.equal(journal.accepting, false);
    assert.match(listener.accepting_.at(-1)!.why, /journal\.maxSize \(8000 bytes\)/);
    append(journal, 1001, 1);
    await journal.flush();
    journal.settled(1002);
    await until('room again', () => journal.accepting);
    await journal.close();
  });

  it('it wants some of the disk left free for others, and goes on writing what it has', async () => {
    const disk = new SimulatedDisk(Math.random);
    disk.capacityBytes = 4 * mebi;
    const listener = new Listener();
    const journal = await open(disk, { listener, freeBytesMin: 8 * mebi });
    append(journal, 1, 10);
    await journal.flush();
    assert.equal(journal.accepting, false);
    assert.equal(journal.durableSeq, 10);
    assert.match(listener.accepting_.at(-1)!.why, /less than 8388608 bytes left/);
    disk.capacityBytes = 32 * mebi;
    await until('room again', () => journal.accepting);
    await journal.close();
  });
});

describe('the head of a segment', () => {
  it('leaves out endpoints that are gone, and names one that comes back', async () => {
    const disk = new SimulatedDisk(Math.random);
    let journal = await open(disk);
    journal.nameEndpoint(number(1), '/key/gone');
    journal.nameEndpoint(number(2), '/key/there');
    journal.append(1, number(1), Status.removed, Source.felix, 1, false);
    journal.append(2, number(2), Status.up, Source.felix, 2, false);
    await journal.flush();
    let seq = 2;
    const busy = async (): Promise<void> => {
      for (let i = 0; i < 100; i++)
        journal.append(++seq, number(2), ((seq % 2) + 1) as Status, Source.felix, seq, false);
      await journal.flush();
      journal.settled(seq + 1);
      await journal.flush();
    };
    for (let i = 0; i < 4; i++) await busy();
    const names = (): string[] => {
      const found = new Set<string>();
      readJournal(disk, { name: (_endpoint, key) => void found.add(key) });
      return [...found];
    };
    assert.deepEqual(names(), ['/key/there']);
    journal.append(++seq, number(1), Status.down, Source.felix, seq, false);
    await journal.close();
    assert.deepEqual(names().sort(), ['/key/gone', '/key/there']);
    journal = await open(disk);
    assert.equal(journal.recovered.endpoints.get(number(1)), '/key/gone');
    assert.equal(journal.recovered.statuses.get(number(1)), Status.down);
    await journal.close();
  });
});

describe('sync', () => {
  for (const sync of ['interval', 'never'] as const) {
    it(`${sync} counts as durable what is written: it survives the process, not the power`, async () => {
      const disk = new SimulatedDisk(Math.random);
      const listener = new Listener();
      const journal = await open(disk, { sync, listener, segmentBytes: mebi });
      const entries = append(journal, 1, 50);
      await journal.flush();
      assert.equal(journal.durableSeq, 50);
      assert.deepEqual(entriesOf(await open(disk.processDeath())), entries);
      if (sync === 'interval') await until('a sync', () => listener.syncs > 0);
      await journal.close();
      if (sync === 'never') assert.equal(listener.syncs, 0);
      assert.deepEqual(entriesOf(await open(disk.powerCut())), entries);
    });
  }
});
