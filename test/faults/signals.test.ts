/** Signals at bad moments, and two flapd that want the same journal (faults 36, 37 and 42). */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Course } from '../support/course.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { until } from '../support/waiting.js';

describe('a flapd with a journal', () => {
  let etcd: Etcd;
  let folder: string;
  let course: Course;
  beforeEach(async () => {
    etcd = await startEtcd();
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
  });
  afterEach(async () => {
    await Course.closeAll();
    await etcd.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const journal = (): string => `--journal=${join(folder, 'journal')}`;
  const start = async (...args: string[]): Promise<void> => {
    course = await Course.start(etcd.endpoint, { folder, args: [journal(), ...args] });
  };
  /** Leaves so many rounds in the journal of a flapd that is killed then. */
  const leave = async (rounds: number): Promise<void> => {
    await course.flap(3);
    await course.verify();
    etcd.kill('SIGSTOP');
    await course.flap(rounds);
    await course.flapd.kill9();
  };

  for (const moment of ['flapd starts', 'are pending again', 'feed socket is open']) {
    it(`that is told to end (SIGTERM) while it starts, at "${moment}", ends and loses nothing`, async () => {
      await start('--set=shutdown.drain=200ms');
      await leave(100);
      const next = await course.launch();
      await next.says(moment);
      next.kill('SIGTERM');
      // etcd is frozen: what is left of the journal stays left, and flapd says so.
      assert.equal(await next.exited, 75, next.words);
      etcd.kill('SIGCONT');
      await course.again();
      await course.end();
    });
  }

  it('refuses a second one its journal: that ends with 77 at once, and the first goes on', async () => {
    await start();
    await course.during(async () => {
      const second = await Flapd.start({ etcd: etcd.endpoint, args: ['--endpoints-from=feed', journal()] });
      assert.equal(await second.exited, 77, second.words);
      assert.match(second.words, /another flapd|in use|lock/i);
      await second.stop();
    });
    assert.equal(course.flapd.exitCode, null);
    await course.end();
  });

  it('that is told a hundred times in a storm to read its settings anew (SIGHUP), right and wrong ones, loses nothing', async () => {
    const config = join(folder, 'flapd.yaml');
    writeFileSync(config, '');
    await start(`--config=${config}`);
    const reloads = (result: string): Promise<number> =>
      course.flapd.metric(`flapd_config_reloads_total{result="${result}"}`);
    const reloaded = async (): Promise<number> => (await reloads('ok')) + (await reloads('refused'));
    /** Each tenth is refused; each tenth, another one, makes new connections to etcd necessary. */
    const settings = (i: number): string =>
      i % 10 === 9
        ? 'log.level: nonsense\n'
        : `log.level: ${i % 2 === 0 ? 'info' : 'warn'}\netcd.deadline: ${i % 10 === 0 ? 3 : 2}s\n`;
    await course.during(async () => {
      for (let i = 0; i < 100; i++) {
        writeFileSync(config, settings(i));
        const before = await reloaded();
        course.flapd.kill('SIGHUP');
        await until('the signal to take effect', async () => (await reloaded()) > before);
      }
      assert.equal(await reloads('refused'), 10);
    });
    await course.end();
  });
});
