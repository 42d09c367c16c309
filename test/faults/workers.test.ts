/** Worker threads that fail in the running daemon, in a storm (fault 25). */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { WorkerFault } from '../../src/etcd/task.js';
import { Course } from '../support/course.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { until } from '../support/waiting.js';

describe('a worker thread that fails in a storm', () => {
  let etcd: Etcd;
  let folder: string;
  beforeEach(async () => {
    etcd = await startEtcd();
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
  });
  afterEach(async () => {
    await Course.closeAll();
    await etcd.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const start = (workers: number): Promise<Course> =>
    Course.start(etcd.endpoint, {
      args: [`--set=workers=${workers}`],
      env: { FLAPD_FAULTS: join(folder, 'fault') },
    });
  /** The next transaction's worker fails so. */
  const ask = async (fault: WorkerFault): Promise<void> => {
    writeFileSync(join(folder, 'next'), fault);
    renameSync(join(folder, 'next'), join(folder, 'fault'));
    await until('a worker to take the fault', () => !existsSync(join(folder, 'fault')));
  };
  const replaced = (course: Course): Promise<number> => course.flapd.metric('flapd_workers_replaced_total');

  for (const [fault, times] of [
    ['throw', 3],
    ['throwOutside', 2],
    ['exit', 2],
    ['outOfMemory', 1],
  ] as const) {
    it(`(${fault}) is replaced as often as that happens, and all is there once`, async () => {
      const course = await start(1);
      await course.during(async () => {
        for (let round = 1; round <= times; round++) {
          await ask(fault);
          await until('the worker to be replaced', async () => (await replaced(course)) >= round);
          const committed = await course.flapd.metric('flapd_transitions_committed_total');
          await until(
            'its successor to write',
            async () => (await course.flapd.metric('flapd_transitions_committed_total')) > committed,
            { deadlineMs: 5000 },
          );
        }
      });
      assert.equal(await replaced(course), times);
      await course.end();
    });
  }

  it('(hang) is ended and replaced after ten seconds; meanwhile what other workers have goes on', async () => {
    const course = await start(2);
    await course.flap(2);
    await course.verify();
    await course.during(async () => {
      await ask('hang');
      await until('the worker to be replaced', async () => (await replaced(course)) === 1, {
        deadlineMs: 20_000,
        everyMs: 100,
      });
    }, 50);
    await course.end();
  });
});
