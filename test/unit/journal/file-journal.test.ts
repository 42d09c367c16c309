import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { crc32 } from 'node:zlib';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Status } from '../../../src/endpoints/status.js';
import { segmentName } from '../../../src/journal/format.js';
import {
  append,
  type Entry,
  entriesOf,
  Listener,
  openJournal,
  temporaryFolder,
} from '../../support/journal.js';
import { until } from '../../support/waiting.js';

const endpoint = (n: number): EndpointIndex => n as EndpointIndex;

describe('the journal', () => {
  it('gives back what was appended, in order, with names, statuses, cursors and counters', async () => {
    const folder = temporaryFolder();
    const journal = await openJournal(folder.path);
    for (let i = 0; i < 10; i++) journal.nameEndpoint(endpoint(i), `/key/${i}`);
    const entries = append(journal, 1, 100);
    journal.committed(2, new Uint8Array([1, 2, 3]), 77, [endpoint(3)], [3], [true]);
    journal.counters({ ifindex: 5, name: 'tap5', running: true, upCount: 7, downCount: 6 });
    await journal.flush();
    assert.equal(journal.durableSeq, 100);
    await journal.close();
    const again = await openJournal(folder.path);
    assert.deepEqual(entriesOf(again), entries);
    assert.equal(again.recovered.endpoints.get(endpoint(4)), '/key/4');
    assert.equal(
      again.recovered.statuses.get(endpoint(0)),
      entries.findLast((entry) => entry.endpoint === 0)!.status,
    );
    assert.deepEqual(again.recovered.cursors.get(2), new Uint8Array([1, 2, 3]));
    assert.deepEqual(again.recovered.counters, [
      { ifindex: 5, name: 'tap5', running: true, upCount: 7, downCount: 6 },
    ]);
    assert.equal(again.recovered.lastSeq, 100);
    assert.deepEqual(again.recovered.unconfirmed, [3]);
    again.committed(2, new Uint8Array([1, 2, 4]), 78, [endpoint(3)], [Number.NaN], [false]);
    await again.close();
    const confirmed = await openJournal(folder.path);
    assert.deepEqual(confirmed.recovered.unconfirmed, []);
    await confirmed.close();
    folder.remove();
  });

  it('syncs once for all that came meanwhile', async () => {
    const folder = temporaryFolder();
    const listener = new Listener();
    const journal = await openJournal(folder.path, { listener });
    append(journal, 1, 10_000);
    await journal.flush();
    assert.equal(listener.durableSeq, 10_000);
    assert.ok(listener.syncs < 10, `${listener.syncs} syncs`);
    await journal.close();
    folder.remove();
  });

  it('begins new segments, and deletes old ones only when they are settled and beyond what is kept', async () => {
    const folder = temporaryFolder();
    const journal = await openJournal(folder.path, { segmentBytes: 4096, retainBytes: 0 });
    journal.nameEndpoint(endpoint(1), '/key/1');
    const entries: Entry[] = [];
    for (let round = 0; round < 20; round++) {
      entries.push(...append(journal, 1 + round * 100, 100));
      await journal.flush();
    }
    const all = readdirSync(folder.path).filter((name) => name.endsWith('.log'));
    assert.ok(all.length > 5, `${all.length} segments`);
    // Nothing is settled: all of it is there after a restart.
    await journal.close();
    const again = await openJournal(folder.path, { segmentBytes: 4096, retainBytes: 0 });
    assert.deepEqual(entriesOf(again), entries);
    again.settled(1501);
    append(again, 2001, 100);
    await again.flush();
    await until(
      'old segments to go',
      () => readdirSync(folder.path).filter((name) => name.endsWith('.log')).length < all.length - 3,
    );
    await again.close();
    const last = await openJournal(folder.path);
    const left = entriesOf(last).map(({ seq }) => seq);
    assert.ok(left[0]! <= 1501 && left[0]! > 1, `begins with ${left[0]}`);
    assert.deepEqual(
      left,
      Array.from({ length: 2101 - left[0]! }, (_, i) => left[0]! + i),
    );
    // The checkpoint at the head of what is left still knows what older segments said.
    assert.equal(last.recovered.endpoints.get(endpoint(1)), '/key/1');
    await last.close();
    folder.remove();
  });

  it('takes no more from those who can wait at its largest size, and does again when there is room', async () => {
    const folder = temporaryFolder();
    const listener = new Listener();
    const journal = await openJournal(folder.path, {
      segmentBytes: 4096,
      retainBytes: 0,
      bytesMax: 10_000,
      listener,
    });
    append(journal, 1, 1000);
    await journal.flush();
    assert.equal(journal.accepting, false);
    assert.match(listener.accepting_.at(-1)!.why, /maxSize/);
    // What comes all the same is kept.
    append(journal, 1001, 10);
    await journal.flush();
    assert.equal(journal.durableSeq, 1010);
    journal.settled(1011);
    append(journal, 1011, 200);
    await journal.flush();
    await until('room again', () => journal.accepting);
    await journal.close();
    folder.remove();
  });

  it('is used by one process at a time', async () => {
    const folder = temporaryFolder();
    const journal = await openJournal(folder.path);
    await assert.rejects(openJournal(folder.path), {
      code: 'JOURNAL_LOCKED',
      message: new RegExp(`locked by pid ${process.pid}\\b`),
    });
    await journal.close();
    // What a dead process left holds nobody up, were its pid that of a living one by now.
    writeFileSync(join(folder.path, 'lock'), `${process.ppid}\n`);
    const again = await openJournal(folder.path);
    await again.close();
    folder.remove();
  });

  it('leaves what a newer flapd has written as it is', async () => {
    const folder = temporaryFolder();
    const journal = await openJournal(folder.path);
    append(journal, 1, 5);
    await journal.close();
    const file = join(folder.path, segmentName(1));
    const bytes = readFileSync(file);
    bytes.writeUInt32LE(2, 8);
    bytes.writeUInt32LE(crc32(bytes.subarray(0, 28)), 28);
    writeFileSync(file, bytes);
    await assert.rejects(openJournal(folder.path), { code: 'JOURNAL_VERSION', message: /newer flapd/ });
    assert.deepEqual(readFileSync(file), bytes);
    folder.remove();
  });

  it('says what is wrong with a directory that it cannot use', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder.path, 'file'), '');
    await assert.rejects(openJournal(join(folder.path, 'file')), {
      code: 'JOURNAL_IO',
      message: /another directory/,
    });
    folder.remove();
  });
});

describe('the journal after a power cut', () => {
  it('cuts a tail of zeros and one of absurd lengths', async () => {
    const folder = temporaryFolder();
    const journal = await openJournal(folder.path);
    const entries = append(journal, 1, 20);
    await journal.close();
    const whole = readFileSync(join(folder.path, segmentName(1)));
    for (const tail of [
      Buffer.alloc(5000),
      Buffer.alloc(40, 0xff),
      Buffer.from('FBLK\xff\xff\xff\x7f0000000000', 'latin1'),
    ]) {
      writeFileSync(join(folder.path, segmentName(1)), Buffer.concat([whole, tail]));
      const again = await openJournal(folder.path);
      assert.deepEqual(entriesOf(again), entries);
      assert.equal(again.cutBytes, tail.length);
      await again.close();
    }
    folder.remove();
  });
});

describe('statuses in the journal', () => {
  it('keep all four and the source apart', async () => {
    const folder = temporaryFolder();
    const journal = await openJournal(folder.path);
    const statuses = [Status.removed, Status.up, Status.down, Status.error];
    statuses.forEach((status, i) => {
      journal.append(i + 1, endpoint(i), status, (3 - i) as 0 | 1 | 2 | 3, 1.5e15 + i, false);
    });
    await journal.close();
    const again = await openJournal(folder.path);
    const got: unknown[] = [];
    again.recovered.forEach((...values) => {
      got.push(values);
    });
    assert.deepEqual(
      got,
      statuses.map((status, i) => [i + 1, i, status, 3 - i, 1.5e15 + i, false]),
    );
    await again.close();
    folder.remove();
  });
});
