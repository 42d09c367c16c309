/** How Neutron sees that a host's agent lives: two keys with one value, put again and again (docs/design.md, section 4). */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { processStatusKeys } from '../../src/endpoints/key.js';
import { Status } from '../../src/endpoints/status.js';
import { watchPrefix } from '../../src/etcd/watch.js';
import { vm, where } from '../support/host.js';
import { startProxy } from '../support/proxy.js';
import { until } from '../support/waiting.js';
import { Store, unspaced } from './fed-host.js';

const { up, down } = Status;
const keys = processStatusKeys(where);
const on = ['--set=reporting.processStatus=true'];
const quick = [...on, '--set=reporting.interval=500ms', '--set=reporting.ttl=3s'];

interface Beat {
  readonly revision: number;
  /** Null: the key is gone. */
  readonly text: string | null;
}

class Heart {
  readonly expiring: Beat[] = [];
  readonly last: Beat[] = [];

  static follow(t: TestContext, { etcd }: Store): Heart {
    const heart = new Heart();
    const stop = new AbortController();
    const watching = watchPrefix({ endpoints: [etcd.endpoint] }, '/calico/felix/v2/', {
      fromRevision: 1,
      onEvents: (events) => {
        for (const { key, value, revision } of events) {
          const beat = { revision, text: value === null ? null : Buffer.from(value).toString() };
          if (key === keys.expiring) heart.expiring.push(beat);
          if (key === keys.last) heart.last.push(beat);
        }
      },
      onCompacted: () => undefined,
      signal: stop.signal,
    });
    t.after(async () => {
      stop.abort();
      await watching;
    });
    return heart;
  }

  /** Waits for so many more beats. */
  async beats(count: number, deadlineMs = 15_000): Promise<void> {
    const before = this.last.length;
    await until(`${count} more beats`, () => this.last.length >= before + count, { deadlineMs });
  }

  get values(): { time: string; uptime: number; first_update: boolean }[] {
    return this.last.map(({ text }) => JSON.parse(text!));
  }
}

describe('the process status', { concurrency: 2 }, () => {
  it('is in both keys, is put again every interval, and is the first one once per process (C33)', async (t) => {
    const store = await Store.open(t);
    const heart = Heart.follow(t, store);
    const host = await store.host(quick);
    await heart.beats(4);
    await host.stop();
    await until('both to be told of', () => heart.expiring.length === heart.last.length);
    assert.deepEqual(heart.expiring, heart.last);
    for (const value of heart.values) {
      assert.deepEqual(Object.keys(value), ['time', 'uptime', 'first_update']);
      assert.match(value.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    }
    const uptimes = heart.values.map(({ uptime }) => uptime);
    assert.deepEqual(
      uptimes,
      [...new Set(uptimes)].sort((a, b) => a - b),
    );
    const beats = heart.last.length;
    await store.host(quick);
    await heart.beats(2);
    assert.deepEqual(
      heart.values.map(({ first_update }, i) => (first_update ? i : null)).filter((i) => i !== null),
      [0, beats],
    );
  });

  it('has a lease of 90 s in one key and none in the other, with the standard settings', async (t) => {
    const store = await Store.open(t);
    await store.host(on);
    const lease = async (key: string): Promise<bigint> => {
      const found = await until(`a value of ${key}`, () =>
        /"Lease" : (\d+)/.exec(store.etcd.ctl('get', key, '-w', 'fields')),
      );
      return BigInt(found[1]!);
    };
    assert.equal(await lease(keys.last), 0n);
    const id = (await lease(keys.expiring)).toString(16);
    assert.match(store.etcd.ctl('lease', 'timetolive', id), /granted with TTL\(90s\)/);
  });

  it('is gone with its lease when flapd dies, but for the key that stays', async (t) => {
    const store = await Store.open(t);
    const heart = Heart.follow(t, store);
    const host = await store.host(quick);
    await heart.beats(2);
    await host.flapd.kill9();
    await until('the expiring key to be gone', () => heart.expiring.at(-1)?.text === null);
    assert.equal(store.etcd.ctl('get', keys.expiring), '');
    assert.equal(store.etcd.ctl('get', '--print-value-only', keys.last).trim(), heart.last.at(-1)!.text);
  });

  it('outlives its lease: with a backlog at the lowest rate, and an etcd that is slow to answer (C12)', async (t) => {
    const store = await Store.open(t);
    const heart = Heart.follow(t, store);
    const proxy = await startProxy(store.etcd.endpoint);
    t.after(() => proxy.close());
    const slow = ['--set=limits.txnsPerSecond=1', '--set=limits.burst=1', '--lanes=1', '--set=txn.maxOps=2'];
    const host = await store.host([...quick, ...unspaced, ...slow, '--set=shutdown.drain=100ms'], {
      through: proxy.endpoint,
    });
    proxy.delay(300);
    for (let n = 0; n < 100; n++) host.feeder.send(vm(n), n % 2 === 0 ? up : down);
    await host.feeder.acknowledged();
    const lease = () => /"Lease" : (\d+)/.exec(store.etcd.ctl('get', keys.expiring, '-w', 'fields'))?.[1];
    await heart.beats(1);
    const first = lease();
    const bornAtMs = performance.now();
    await until('more than the time of the lease', () => performance.now() - bornAtMs > 4000);
    await heart.beats(1);
    assert.ok((await host.flapd.metric('flapd_pending_transitions')) > 50, 'no backlog');
    assert.equal(
      heart.expiring.some(({ text }) => text === null),
      false,
    );
    assert.equal(lease(), first);
  });

  it('comes back after an etcd that was away for longer than the lease, and not as a first one (C12)', async (t) => {
    const store = await Store.open(t);
    const heart = Heart.follow(t, store);
    const host = await store.host([...quick, '--set=etcd.deadline=500ms']);
    await heart.beats(2);
    const frozenAtMs = performance.now();
    store.etcd.kill('SIGSTOP');
    await until('more than the time of the lease', () => performance.now() - frozenAtMs > 5000).finally(() =>
      store.etcd.kill('SIGCONT'),
    );
    await heart.beats(3);
    assert.notEqual(store.etcd.ctl('get', keys.expiring), '');
    assert.equal(heart.values.filter(({ first_update }) => first_update).length, 1);
    assert.equal((await host.flapd.get('/readyz')).ready, true);
  });

  it('is not there at all where Felix writes it', async (t) => {
    const store = await Store.open(t);
    const heart = Heart.follow(t, store);
    const host = await store.host(['--set=reporting.processStatus=false', '--set=reporting.interval=500ms']);
    await host.tell(vm(1), up);
    await store.history.reaches(host.key(vm(1)), 1);
    assert.equal(await host.stop(), 0);
    assert.deepEqual(heart.last, []);
    assert.deepEqual(heart.expiring, []);
  });
});
