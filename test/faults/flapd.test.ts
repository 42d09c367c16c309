import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, History, keyOf, vm } from '../support/host.js';
import { until } from '../support/waiting.js';

const { up, down } = Status;
const alternating = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => (i % 2 === 0 ? 'up' : 'down'));

/** How late the loop of a process is that does nothing. */
class IdleProcess {
  readonly #child = spawn(
    process.execPath,
    [
      '-e',
      `const lag = require('node:perf_hooks').monitorEventLoopDelay({ resolution: 10 });
       lag.enable();
       process.stdin.resume().on('end', () => console.log(Math.max(0, lag.percentile(99) / 1e6 - 10)));`,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );

  /** Since it was made; it ends with that. */
  async lagP99Ms(): Promise<number> {
    this.#child.stdin.end();
    let said = '';
    for await (const data of this.#child.stdout) said += data;
    return Number(said);
  }
}

describe('faults of flapd and of its machine', () => {
  let etcd: Etcd;
  let history: History;
  let folder: string;

  const start = (...args: string[]): Promise<Flapd> =>
    Flapd.start({
      etcd: etcd.endpoint,
      args: [
        '--endpoints-from=feed',
        '--set=limits.endpointDelay=0',
        '--set=limits.txnsPerSecond=0',
        '--set=reader.confirm=false',
        ...(args.some((arg) => arg.startsWith('--journal')) ? [] : ['--journal=memory']),
        ...args,
      ],
    });
  const flap = (feeder: Feeder, endpoints: number, times: number): void => {
    for (let i = 0; i < times; i++) {
      for (let endpoint = 0; endpoint < endpoints; endpoint++)
        feeder.send(vm(endpoint), i % 2 === 0 ? up : down);
    }
  };
  const expectAll = async (endpoints: number, times: number): Promise<void> => {
    for (let endpoint = 0; endpoint < endpoints; endpoint++) {
      assert.deepEqual(
        await history.reaches(keyOf(endpoint), times, 60_000),
        alternating(times),
        `endpoint ${endpoint}`,
      );
    }
  };
  /** What every fault must end with: flapd works. */
  const freshTransition = async (flapd: Flapd): Promise<void> => {
    const feeder = await Feeder.connect(flapd.feedSocket);
    feeder.send(vm('fresh'), up);
    await feeder.acknowledged(5000);
    assert.deepEqual(await history.reaches(keyOf('fresh'), 1, 5000), ['up']);
    await feeder.end();
  };

  beforeEach(async () => {
    etcd = await startEtcd();
    history = new History(etcd.endpoint);
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
  });
  afterEach(async () => {
    await history.close();
    await etcd.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('a flapd that was frozen while another took over writes nothing more when it wakes, and ends with 77', async () => {
    const first = await start();
    await first.says('the feed socket is open');
    const feeder = await Feeder.connect(first.feedSocket);
    flap(feeder, 20, 4);
    await feeder.acknowledged();
    await expectAll(20, 4);
    etcd.kill('SIGSTOP');
    flap(feeder, 20, 10); // accepted, in hand, not written
    await feeder.acknowledged();
    first.kill('SIGSTOP');
    etcd.kill('SIGCONT');
    const second = await start();
    await second.ready();
    const claimed = etcd.ctl('get', '/calico/flapd', '--prefix', '--keys-only', '-w', 'json');
    const revision = (JSON.parse(claimed) as { header: { revision: number } }).header.revision;
    first.kill('SIGCONT');
    assert.equal(await first.exited, 77, first.words);
    await freshTransition(second);
    const now = JSON.parse(etcd.ctl('get', '/calico/felix', '--prefix', '-w', 'json')) as {
      kvs: { key: string; mod_revision: number }[];
    };
    const later = now.kvs
      .filter((kv) => kv.mod_revision > revision)
      .map((kv) => Buffer.from(kv.key, 'base64').toString());
    assert.deepEqual(later, [keyOf('fresh')]);
    await first.stop();
    assert.equal(await second.stop(), 0, second.words);
  });

  it('a main loop that stood still for five seconds goes on where it was', async () => {
    const flapd = await start();
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    flap(feeder, 20, 25);
    flapd.kill('SIGSTOP');
    const stoppedAtMs = performance.now();
    await until('five seconds', () => performance.now() - stoppedAtMs >= 5000, { everyMs: 100 });
    flapd.kill('SIGCONT');
    await feeder.acknowledged();
    await expectAll(20, 25);
    await freshTransition(flapd);
    assert.equal(await flapd.stop(), 0, flapd.words);
  });

  it('without file descriptors nobody can connect, what is connected goes on, and it recovers', async () => {
    const flapd = await start(`--journal=${join(folder, 'journal')}`);
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    flap(feeder, 5, 2);
    await feeder.acknowledged();
    await expectAll(5, 2);
    const open = readdirSync(`/proc/${flapd.pid}/fd`).length;
    const limit = (soft: number): unknown =>
      execFileSync('prlimit', [`--pid=${flapd.pid}`, `--nofile=${soft}:`]);
    limit(open);
    const refused = await Promise.allSettled(
      Array.from({ length: 4 }, () => Feeder.connect(flapd.feedSocket)),
    );
    assert.ok(refused.length > 0);
    for (let i = 2; i < 10; i++)
      for (let endpoint = 0; endpoint < 5; endpoint++) feeder.send(vm(endpoint), i % 2 === 0 ? up : down);
    await feeder.acknowledged();
    await expectAll(5, 10);
    limit(1024);
    await freshTransition(flapd);
    assert.equal(await flapd.stop(), 0, flapd.words);
  });

  it('a million pending transitions cost at most 100 bytes each, drain in order, and hold up neither the main loop nor feeders', async () => {
    const endpoints = 1000;
    const times = 1000;
    const flapd = await start('--set=txn.watchBytesMax=0');
    await flapd.ready();
    const rss = (): number =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${flapd.pid}/status`, 'utf8'))![1]) * 1024;
    const feeder = await Feeder.connect(flapd.feedSocket);
    // Warm: ids known, code compiled, buffers there.
    flap(feeder, endpoints, 100);
    await feeder.acknowledged(60_000);
    await until(
      'the warm-up to be written',
      async () => (await flapd.metric('flapd_pending_transitions')) === 0,
      { deadlineMs: 60_000 },
    );
    etcd.kill('SIGSTOP');
    const before = rss();
    for (let i = 100; i < times + 100; i++) {
      for (let endpoint = 0; endpoint < endpoints; endpoint++)
        feeder.send(vm(endpoint), i % 2 === 0 ? up : down);
      if (i % 10 === 0) await feeder.acknowledged(60_000);
    }
    await feeder.acknowledged(60_000);
    const pending = await flapd.metric('flapd_pending_transitions');
    assert.ok(pending >= 990_000, `${pending} pending`);
    const each = (rss() - before) / pending;
    assert.ok(each <= 100, `${each} bytes for each pending transition`);
    const lagP99Ms = async (): Promise<number> =>
      1000 * (await flapd.metric('flapd_eventloop_lag_seconds{quantile="0.99"}')); // since it was last asked for
    const idle = new IdleProcess();
    await lagP99Ms();
    etcd.kill('SIGCONT');
    // Feeding goes on while all that drains: it is not held back until there is less.
    const more = 100;
    for (let i = 0; i < times / 5; i++) {
      for (let n = 0; n < more; n++) feeder.send(vm(`more${n}`), i % 2 === 0 ? up : down);
      if (i % 10 === 9) await feeder.acknowledged();
    }
    const lagsMs = [await lagP99Ms()];
    const left = await flapd.metric('flapd_pending_transitions');
    assert.ok(left > 100_000, `only ${left} were left when the last of what was fed meanwhile was accepted`);
    const expectHistory = async (id: number | string, length: number): Promise<void> => {
      const statuses = await history.reaches(keyOf(id), length, 240_000);
      assert.ok(
        statuses.length === length && statuses.every((status, i) => status === (i % 2 === 0 ? 'up' : 'down')),
        `endpoint ${id}`,
      );
    };
    for (let endpoint = 0; endpoint < endpoints; endpoint++) await expectHistory(endpoint, times + 100);
    for (let n = 0; n < more; n++) await expectHistory(`more${n}`, times / 5);
    lagsMs.push(await lagP99Ms());
    // What the machine makes a process wait that has nothing to do is not flapd's doing.
    const idleMs = await idle.lagP99Ms();
    for (const lagMs of lagsMs)
      assert.ok(lagMs <= 50 + idleMs, `main loop ${lagsMs} ms late, an idle one ${idleMs} ms`);
    await freshTransition(flapd);
    assert.equal(await flapd.stop(), 0, flapd.words);
  });
});
