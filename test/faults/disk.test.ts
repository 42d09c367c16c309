/** The journal's file system, read-only at the start and while flapd runs (fault 17); full while it runs (fault 13). */
import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { Course } from '../support/course.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, keyOf, vm } from '../support/host.js';
import { traceRunning } from '../support/strace.js';
import { Tmpfs } from '../support/tmpfs.js';
import { until } from '../support/waiting.js';

const mebi = 2 ** 20;

describe("the journal's file system", () => {
  let etcd: Etcd;
  let disk: Tmpfs;
  let folder: string;
  before(async () => {
    etcd = await startEtcd();
  });
  after(() => etcd.close());
  beforeEach(() => {
    etcd.ctl('del', '/calico', '--prefix');
    disk = new Tmpfs(64 * mebi);
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
  });
  afterEach(async () => {
    await Course.closeAll();
    disk.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  const start = (): Promise<Course> => {
    const { header } = JSON.parse(etcd.ctl('get', '/', '-w', 'json')) as { header: { revision: number } };
    return Course.start(etcd.endpoint, {
      fromRevision: header.revision + 1,
      folder,
      args: [`--journal=${join(disk.path, 'journal')}`],
    });
  };

  it('read-only at the start: flapd ends with 74, says why, and has not opened its socket', async () => {
    const course = await start();
    await course.flap(3);
    await course.verify();
    assert.equal(await course.flapd.stop(), 0);
    disk.readOnly();
    const flapd = await Flapd.start({
      etcd: etcd.endpoint,
      folder,
      args: ['--endpoints-from=feed', `--journal=${join(disk.path, 'journal')}`],
    });
    assert.equal(await flapd.exited, 74, flapd.words);
    assert.match(flapd.words, /read-only/);
    assert.doesNotMatch(flapd.words, /the feed socket is open/);
    disk.writable();
    await course.again();
    await course.end();
  });

  it('read-only while it runs: flapd ends with 74, and has acknowledged nothing of what it could not write', async () => {
    const course = await start();
    await course.flap(5);
    await course.verify();
    // As after an error of the disk: what is open stays open, and no write gets through.
    const heal = await traceRunning(course.flapd.pid, 'pwrite64:error=EROFS');
    const feeder = await Feeder.connect(course.flapd.feedSocket);
    for (const status of [Status.up, Status.down, Status.up]) feeder.send(vm('refused'), status);
    assert.equal(await course.flapd.exited, 74, course.flapd.words);
    assert.match(course.flapd.words, /EROFS|read-only/);
    assert.equal(feeder.unacknowledged, 3);
    await heal();
    await course.again();
    await course.end();
    assert.deepEqual(course.history.of(keyOf('refused')), []);
  });

  it('full while it runs: feeders wait, what was accepted is written, and it goes on by itself with room', async () => {
    const course = await start();
    await course.flap(5);
    await course.verify();
    const filler = join(disk.path, 'filler');
    fill(filler, 64 * mebi);
    await course.during(async () => {
      // The journal's files have room of their own; once that is used up, nothing more is taken.
      await until(
        'the journal to be full',
        async () => (await course.flapd.metric('flapd_journal_accepting')) === 0,
        { deadlineMs: 30_000 },
      );
      assert.ok((await course.flapd.get('/readyz')).degraded);
      rmSync(filler);
    });
    await course.end();
  });
});

/** Takes all the room there is. */
function fill(path: string, bytes: number): void {
  const file = openSync(path, 'w');
  try {
    for (let size = bytes; size >= 4096; ) {
      try {
        if (writeSync(file, Buffer.alloc(size)) < size) size /= 2;
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
        size /= 2;
      }
    }
  } finally {
    closeSync(file);
  }
}
