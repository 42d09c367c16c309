/** The journal on a full, and on a read-only file system (faults 13 and 17). */
import assert from 'node:assert/strict';
import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { EndpointIndex } from '../../src/endpoints/id.js';
import { append, type Entry, entriesOf, Listener, openJournal } from '../support/journal.js';
import { Tmpfs } from '../support/tmpfs.js';
import { until } from '../support/waiting.js';

const mebi = 2 ** 20;
const small = { segmentBytes: 256 * 1024, retainBytes: 0, freeBytesMin: 0, reserveBytes: mebi, retryMs: 10 };

/** Takes all the room there is. */
function fill(directory: string): string {
  const path = join(directory, 'filler');
  let bytes = 64 * mebi;
  let content = Buffer.alloc(0);
  while (bytes >= 4096) {
    try {
      content = Buffer.alloc(content.length + bytes);
      writeFileSync(path, content);
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
      content = Buffer.alloc(content.length - bytes);
      writeFileSync(path, content);
      bytes = Math.floor(bytes / 2);
    }
  }
  return path;
}

describe('the journal on a full disk', () => {
  it('takes no more from those who can wait, keeps what comes all the same, and goes on by itself', async (t) => {
    const disk = new Tmpfs(8 * mebi);
    t.after(() => disk.remove());
    const listener = new Listener();
    const journal = await openJournal(disk.path, { ...small, listener });
    const entries: Entry[] = append(journal, 1, 1000);
    await journal.flush();
    const filler = fill(disk.path);
    entries.push(...append(journal, 1001, 50_000));
    await until('the journal to see it', () => !journal.accepting);
    assert.match(listener.accepting_.at(-1)!.why, /is full/);
    const { durableSeq } = journal;
    assert.ok(durableSeq < 51_000, `${durableSeq} durable`);
    entries.push(...append(journal, 51_001, 1000)); // interfaces do not wait
    journal.committed(1, new Uint8Array([9]), 7, [1 as EndpointIndex], [1], [false]);
    rmSync(filler);
    await until('all of it to be durable', () => journal.durableSeq === 52_000);
    await until('it to take all that comes', () => journal.accepting);
    assert.deepEqual(
      listener.accepting_.map(({ accepting }) => accepting),
      [false, true],
    );
    assert.equal(listener.failure, null);
    await journal.close();
    const again = await openJournal(disk.path, small);
    assert.deepEqual(entriesOf(again), entries);
    assert.deepEqual(again.recovered.cursors.get(1), new Uint8Array([9]));
    await again.close();
  });

  it('makes room by itself when etcd takes what is pending: the reserve is for that', async (t) => {
    const disk = new Tmpfs(4 * mebi);
    t.after(() => disk.remove());
    const listener = new Listener();
    const journal = await openJournal(disk.path, { ...small, listener });
    append(journal, 1, 400_000); // 8.8 MB: more than fits
    await until('the journal to be full', () => !journal.accepting);
    // What fits is durable, and etcd takes it, again and again: each time there is room for more.
    let settled = 0;
    await until(
      'all of it to go through',
      () => {
        if (journal.durableSeq > settled) {
          settled = journal.durableSeq;
          journal.committed(0, new Uint8Array([1]), settled, [], [], []);
          journal.settled(settled + 1);
        }
        return settled === 400_000;
      },
      { deadlineMs: 30_000 },
    );
    await until('it to take all that comes', () => journal.accepting);
    await journal.close();
    const again = await openJournal(disk.path, small);
    assert.deepEqual(entriesOf(again), []);
    assert.equal(again.recovered.lastSeq, 400_000);
    await again.close();
  });

  it('starts on one', async (t) => {
    const disk = new Tmpfs(4 * mebi);
    t.after(() => disk.remove());
    const first = await openJournal(disk.path, small);
    const entries = append(first, 1, 1000);
    await first.close();
    rmSync(join(disk.path, 'reserve'));
    const filler = fill(disk.path);
    const journal = await openJournal(disk.path, small);
    assert.deepEqual(entriesOf(journal), entries);
    entries.push(...append(journal, 1001, 10_000));
    await until('the journal to see it', () => !journal.accepting);
    rmSync(filler);
    await until('all of it to be durable', () => journal.durableSeq === 11_000);
    await journal.close();
  });
});

describe('the journal on a read-only file system', () => {
  it('says so at the start, and changes nothing', async (t) => {
    const disk = new Tmpfs(8 * mebi);
    t.after(() => disk.remove());
    const journal = await openJournal(disk.path, small);
    append(journal, 1, 10);
    await journal.flush();
    await journal.close();
    disk.readOnly();
    const before = readdirSync(disk.path);
    await assert.rejects(openJournal(disk.path, small), {
      code: 'JOURNAL_IO',
      message: /read-only.*another directory/,
    });
    assert.deepEqual(readdirSync(disk.path), before);
  });
});
