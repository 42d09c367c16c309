/** The wall clock, stepped while flapd runs and between two of its lives (fault 34). */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { Course } from '../support/course.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { FakeClock } from '../support/fake-clock.js';
import { until } from '../support/waiting.js';

const hour = 3600;
const day = 24 * hour;

describe('a clock that is stepped', () => {
  let etcd: Etcd;
  let clock: FakeClock;
  let folder: string;
  before(async () => {
    etcd = await startEtcd();
  });
  after(() => etcd.close());
  beforeEach(() => {
    etcd.ctl('del', '/calico', '--prefix');
    clock = new FakeClock();
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
  });
  afterEach(async () => {
    await Course.closeAll();
    clock.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const start = (...args: string[]): Promise<Course> => {
    const { header } = JSON.parse(etcd.ctl('get', '/', '-w', 'json')) as { header: { revision: number } };
    return Course.start(etcd.endpoint, {
      fromRevision: header.revision + 1,
      env: clock.env,
      folder,
      args: [`--journal=${join(folder, 'journal')}`, '--set=resync.interval=1s', ...args],
    });
  };
  /** What flapd does by timers goes on: transactions, resyncs. */
  const goesOnFrom = async (course: Course): Promise<void> => {
    const count = async (): Promise<[number, number]> => [
      await course.flapd.metric('flapd_transitions_committed_total'),
      await resyncs(course),
    ];
    const [committed, resynced] = await count();
    await until(
      'commits and resyncs to go on',
      async () => {
        const [committedNow, resyncsNow] = await count();
        return committedNow > committed + 50 && resyncsNow > resynced;
      },
      { deadlineMs: 5000, everyMs: 50 },
    );
  };
  const storm = (course: Course, roundPauseMs?: number): Promise<void> =>
    course.during(async () => {
      for (const offset of [-hour, day, 0]) {
        clock.offset(offset);
        await goesOnFrom(course);
      }
    }, roundPauseMs);

  it('back an hour and forward a day within a storm: all once, in order, and no timer waits for it', async () => {
    const course = await start();
    await storm(course);
    await course.end();
  });

  it('with the limits of production, holds nothing back and lets nothing more through', async () => {
    const course = await start(
      '--set=limits.txnsPerSecond=40',
      '--set=limits.burst=20',
      '--set=limits.endpointDelay=100ms',
      '--set=limits.endpointCatchUp=1s',
    );
    const beganAtMs = performance.now();
    await storm(course, 100);
    await course.verify();
    const txns = await course.flapd.metric('flapd_txn_duration_seconds_count{result="committed"}');
    const seconds = (performance.now() - beganAtMs) / 1000;
    // The bucket is full at the start; with each second it gets so many more.
    assert.ok(txns <= 20 + 40 * seconds + 5, `${txns} transactions in ${seconds} s`);
    await course.end();
  });

  it('back an hour between two lives: what comes after is newer than what was before', async () => {
    const course = await start();
    await course.flap(5);
    await course.verify();
    assert.equal(await course.flapd.stop(), 0, course.flapd.words);
    clock.offset(-hour);
    await course.again();
    await course.flap(5);
    await course.verify();
    await course.flapd.kill9();
    clock.offset(-day);
    await course.again();
    await course.end();
  });

  it('back a day together with a lost journal: what comes after is newer than what etcd has', async () => {
    const course = await start();
    await course.flap(5);
    await course.verify();
    await course.flapd.kill9();
    rmSync(join(folder, 'journal'), { recursive: true });
    clock.offset(-day);
    await course.again();
    await course.flap(5);
    await course.end();
  });
});

/** Whatever came of them. */
async function resyncs({ flapd }: Course): Promise<number> {
  const results = ['clean', 'corrected', 'stale'].map((result) =>
    flapd.metric(`flapd_resync_runs_total{result="${result}"}`),
  );
  return (await Promise.all(results)).reduce((sum, count) => sum + count, 0);
}
