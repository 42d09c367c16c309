/**
 * kill -9 at each step of appending, of beginning a segment and of deleting one (faults 12 and 40): every system call
 * by which the journal changes the disk is where it dies once, until a run goes through.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { append, entriesOf, openJournal, temporaryFolder } from '../support/journal.js';
import { runTraced } from '../support/strace.js';

const child = fileURLToPath(new URL('../support/journal-child.js', import.meta.url));
const transitions = 200;
/** The program settles all but its last 50. */
const settledBehind = 49;

/** The highest seq that the program said was durable. */
function durableOf(stdout: string): number {
  return Math.max(0, ...[...stdout.matchAll(/^durable (\d+)$/gm)].map((match) => Number(match[1])));
}

/** All that the program said was durable and may still be needed is there, in order; and the journal goes on. */
async function assertWhole(directory: string, durable: number, what: string): Promise<void> {
  const journal = await openJournal(directory, { segmentBytes: 1500 });
  const got = entriesOf(journal).map(({ seq }) => seq);
  const last = journal.recovered.lastSeq;
  assert.ok(last >= durable, `${what}: recovered up to ${last} of ${durable}`);
  const firstNeeded = Math.max(1, last - settledBehind);
  assert.ok(
    last === 0 || got[0]! <= firstNeeded,
    `${what}: begins with ${got[0]}, needed from ${firstNeeded}`,
  );
  assert.deepEqual(
    got,
    Array.from({ length: got.length }, (_, i) => last - got.length + 1 + i),
    what,
  );
  append(journal, last + 1, 5);
  await journal.flush();
  assert.equal(journal.durableSeq, last + 5, what);
  await journal.close();
}

describe('the journal, killed', () => {
  for (const call of ['pwrite64', 'fdatasync', 'fsync', 'rename', 'unlink']) {
    it(`at every ${call} has all that was durable, and goes on`, async () => {
      for (let nth = 1; ; nth++) {
        const folder = temporaryFolder();
        const { signal, code, stdout, stderr } = await runTraced(
          [`${call}:signal=KILL:when=${nth}`],
          [child, folder.path, String(transitions)],
        );
        const what = `${call} number ${nth}`;
        if (signal !== 'SIGKILL') {
          assert.equal(code, 0, `${what}: ${stderr}`);
          assert.match(stdout, /^end$/m, 'it has gone through');
          assert.ok(nth > 2, `it was killed ${nth - 1} times only: does it still use ${call}?`);
          folder.remove();
          return;
        }
        await assertWhole(folder.path, durableOf(stdout), what);
        folder.remove();
      }
    });
  }
});

describe('the journal, told that a sync has failed', () => {
  it('says so, never counts that group as durable, and is whole at the next start', async () => {
    for (const nth of [2, 5, 9]) {
      const folder = temporaryFolder();
      const { code, stdout } = await runTraced(
        [`fdatasync:error=EIO:when=${nth}`],
        [child, folder.path, String(transitions)],
      );
      assert.match(stdout, /^failed JOURNAL_IO$/m);
      assert.equal(code, 74);
      assert.doesNotMatch(stdout.slice(stdout.indexOf('failed')), /durable/);
      await assertWhole(folder.path, durableOf(stdout), `EIO at fdatasync ${nth}`);
      folder.remove();
    }
  });

  it('waits for a slow disk, and loses nothing', async () => {
    const folder = temporaryFolder();
    const { code, stdout } = await runTraced(['fdatasync:delay_enter=30000'], [child, folder.path, '60']);
    assert.equal(code, 0);
    assert.equal(durableOf(stdout), 60);
    await assertWhole(folder.path, 60, 'a slow disk');
    folder.remove();
  });
});
