/** Torn tails and damage, byte by byte (faults 14 and 15), and what repair makes of it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { FileJournal } from '../../../src/journal/file-journal.js';
import { segmentName } from '../../../src/journal/format.js';
import { readJournal } from '../../../src/journal/reader.js';
import { repairJournal } from '../../../src/journal/repair.js';
import { scanSegment, segmentsIn } from '../../../src/journal/segment.js';
import { append, type Entry, entriesOf, Listener } from '../../support/journal.js';
import { SimulatedDisk } from '../../support/simulated-disk.js';

function open(disk: SimulatedDisk, segmentBytes = 2 ** 20): Promise<FileJournal> {
  return FileJournal.openIn(disk, {
    sync: 'always',
    syncIntervalMs: 100,
    segmentBytes,
    retainBytes: 2 ** 20,
    bytesMax: 2 ** 30,
    freeBytesMin: 0,
    reserveBytes: 16,
    listener: new Listener(),
  });
}

interface Sample {
  readonly files: ReadonlyMap<string, Buffer>;
  readonly entries: readonly Entry[];
  /** Transitions in the last block of the last segment: those that a torn tail may take. */
  readonly lastBlock: number;
}

/** A journal of so many flushes of three transitions each, as its files. */
async function sample(flushes: number, segmentBytes: number): Promise<Sample> {
  const disk = new SimulatedDisk(Math.random);
  const journal = await open(disk, segmentBytes);
  for (let i = 0; i < 10; i++) journal.nameEndpoint(i as EndpointIndex, `/key/${i}`);
  const entries: Entry[] = [];
  const settledDown = (): boolean => {
    const numbers = segmentsIn(disk);
    const blocks = scanSegment(disk, numbers.at(-1)!).blocks.length;
    return entries.length >= 3 * flushes && (numbers.length === 1 || (blocks >= 3 && blocks <= 4));
  };
  // Until the last segment has blocks of its own, behind its checkpoint, and room for one more.
  while (!settledDown()) {
    entries.push(...append(journal, 1 + entries.length, 3));
    await journal.flush();
  }
  journal.counters({ ifindex: 3, name: 'tap3', running: true, upCount: 4, downCount: 5 });
  entries.push(...append(journal, 1 + entries.length, 2));
  await journal.close();
  const names = disk.list().filter((name) => name.endsWith('.log'));
  return { files: new Map(names.map((name) => [name, disk.read(name)])), entries, lastBlock: 2 };
}

function diskOf(files: ReadonlyMap<string, Buffer>): SimulatedDisk {
  const disk = new SimulatedDisk(Math.random);
  for (const [name, content] of files) disk.put(name, content);
  return disk;
}

function withFile({ files }: Sample, name: string, content: Buffer): SimulatedDisk {
  return diskOf(new Map([...files, [name, content]]));
}

describe('a torn tail', () => {
  it('is cut wherever it is torn: at every byte of the last block', async () => {
    const one = await sample(4, 2 ** 20);
    const whole = one.files.get(segmentName(1))!;
    const { start } = scanSegment(diskOf(one.files), 1).blocks.at(-1)!;
    const before = one.entries.slice(0, -one.lastBlock);
    for (let length = start; length < whole.length; length++) {
      const disk = withFile(one, segmentName(1), whole.subarray(0, length));
      const journal = await open(disk);
      assert.deepEqual(entriesOf(journal), before, `cut at ${length}`);
      assert.equal(journal.cutBytes, length - start);
      const more = append(journal, 100, 1);
      await journal.close();
      assert.deepEqual(entriesOf(await open(disk)), [...before, ...more], `cut at ${length}, and gone on`);
    }
  });

  it('is cut where the file has grown, but nothing of what was to fill it has arrived', async () => {
    const one = await sample(4, 2 ** 20);
    const whole = one.files.get(segmentName(1))!;
    const { start } = scanSegment(diskOf(one.files), 1).blocks.at(-1)!;
    for (let from = start; from < whole.length; from++) {
      const journal = await open(
        withFile(one, segmentName(1), Buffer.concat([whole.subarray(0, from), Buffer.alloc(2000)])),
      );
      const got = entriesOf(journal);
      assert.deepEqual(got, one.entries.slice(0, got.length), `zeros from ${from}`);
      assert.ok(got.length >= one.entries.length - one.lastBlock, `zeros from ${from}`);
    }
  });
});

describe('a flipped bit', () => {
  it('never gives a wrong value, wherever it is: the start is refused, or it was in the torn tail', async () => {
    const one = await sample(12, 400);
    assert.ok(one.files.size >= 3, `${one.files.size} segments`);
    let refused = 0;
    let cut = 0;
    for (const [name, whole] of one.files) {
      for (let at = 0; at < whole.length; at++) {
        for (const mask of [0x01, 0x10, 0x80]) {
          const flipped = Buffer.from(whole);
          flipped[at]! ^= mask;
          const disk = withFile(one, name, flipped);
          try {
            const got = entriesOf(await open(disk));
            assert.deepEqual(got, one.entries.slice(0, got.length), `${name}, byte ${at}`);
            assert.ok(
              got.length >= one.entries.length - one.lastBlock,
              `${name}, byte ${at}: ${got.length} left`,
            );
            cut++;
          } catch (error) {
            if (error instanceof assert.AssertionError) throw error;
            assert.equal(
              (error as { code?: string }).code,
              'JOURNAL_DAMAGED',
              `${name}, byte ${at}: ${error}`,
            );
            assert.match((error as Error).message, /flapd journal repair --dir/);
            assert.ok((error as Error).message.includes(name));
            assert.deepEqual(disk.read(name), flipped, 'a refused journal is left as it is');
            refused++;
          }
        }
      }
    }
    const lastSegment = [...one.files.values()].at(-1)!;
    assert.ok(refused > 0 && cut > 0 && cut < 3 * lastSegment.length, `${refused} refused, ${cut} cut`);
  });

  it('is repaired with all that is good, and what is missing is told', async () => {
    const one = await sample(12, 400);
    for (const [name, whole] of one.files) {
      for (let at = 0; at < whole.length; at += 7) {
        const flipped = Buffer.from(whole);
        flipped[at]! ^= 0x10;
        const disk = withFile(one, name, flipped);
        const repair = await repairJournal(disk, 'now');
        assert.deepEqual(repair.aside, [{ from: name, to: `damaged-now-${name}` }]);
        assert.deepEqual(disk.read(`damaged-now-${name}`), flipped);
        const journal = await open(disk);
        const got = entriesOf(journal);
        assert.deepEqual(
          got,
          one.entries.filter(({ seq }) => got.some((entry) => entry.seq === seq)),
        );
        const gone = one.entries.length - got.length;
        assert.ok(gone <= 3, `${name}, byte ${at}: ${gone} gone for one flipped bit`);
        const last = one.entries.at(-1)!.seq;
        const told = repair.gaps.reduce((sum, { from, to }) => sum + to - from + 1, 0);
        assert.ok(
          told === gone || got[0]?.seq !== 1 || got.at(-1)!.seq < last,
          `${name}, byte ${at}: ${told} of ${gone} told`,
        );
        assert.equal(
          readJournal(disk, {}).every(({ state }) => state === 'good'),
          true,
        );
      }
    }
  });
});

describe('a segment that is missing', () => {
  it('is damage in the middle, and repaired to one with nothing in it', async () => {
    const one = await sample(12, 400);
    const files = new Map(one.files);
    files.delete(segmentName(2));
    const disk = diskOf(files);
    await assert.rejects(open(disk), {
      code: 'JOURNAL_DAMAGED',
      message: /journal-0000000002\.log, byte 0: the file is missing/,
    });
    assert.equal(readJournal(disk, {}).find(({ number }) => number === 2)?.state, 'missing');
    const { missing, gaps } = await repairJournal(disk, 'now');
    assert.deepEqual(missing, [segmentName(2)]);
    assert.equal(gaps.length, 1);
    const journal = await open(disk);
    const seqs = entriesOf(journal).map(({ seq }) => seq);
    assert.deepEqual(
      seqs,
      one.entries.map(({ seq }) => seq).filter((seq) => seq < gaps[0]!.from || seq > gaps[0]!.to),
    );
    assert.equal(journal.recovered.endpoints.get(7 as EndpointIndex), '/key/7');
  });
});

describe('a journal that is being written to', () => {
  it('can be read, and its half-written end is no damage', async () => {
    const one = await sample(12, 400);
    const number = segmentsIn(diskOf(one.files)).at(-1)!;
    const whole = one.files.get(segmentName(number))!;
    const seqs: number[] = [];
    const reports = readJournal(withFile(one, segmentName(number), whole.subarray(0, -1)), {
      transition: (seq) => {
        seqs.push(seq);
      },
    });
    assert.equal(reports.at(-1)!.state, 'torn');
    assert.deepEqual(
      seqs,
      one.entries.slice(0, -one.lastBlock).map(({ seq }) => seq),
    );
  });
});
