/** What Felix's reporter is tested for about its resync: when it begins, what it cleans up, and what it does where that fails. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { keyOf, vm } from '../support/host.js';
import { startProxy } from '../support/proxy.js';
import { until } from '../support/waiting.js';
import { type FedHost, nic, Store, unspaced } from './fed-host.js';

const { up, down, removed } = Status;
const often = ['--set=resync.interval=1s'];
const rarely = ['--set=resync.interval=1h'];

const runs = async (host: FedHost): Promise<number> =>
  (await host.flapd.metric('flapd_resync_runs_total{result="clean"}')) +
  (await host.flapd.metric('flapd_resync_runs_total{result="corrected"}'));

async function moreRuns(host: FedHost, count: number): Promise<void> {
  const before = await runs(host);
  await until(`${count} more runs`, async () => (await runs(host)) >= before + count);
}

/** Left from an earlier life of this host. */
const stale = [keyOf('stale1'), keyOf('stale2'), '/calico/felix/v1/host/testhost/endpoint/stale3'];
/** What is not this host's, or no endpoint's status. */
const foreign = [
  '/calico/felix/v2/no-region/host/testhost2/workload/openstack/x/endpoint/y',
  '/calico/felix/v2/no-region/host/testhos/workload/openstack/x/endpoint/y',
  '/calico/felix/v2/region-other/host/testhost/workload/openstack/x/endpoint/y',
  '/calico/felix/v2/no-region/host/testhost/workload/k8s/namespace.pod/another/shape',
  '/calico/felix/v2/no-region/host/testhost/workload/openstack/x/endpoint/y/deeper',
  '/calico/felix/v2/no-region/host/testhost/workload/openstack/half%escaped/endpoint/y',
  '/calico/felix/v1/host/testhost2/endpoint/eth0',
  '/calico/felix/v1/host/testhost/metadata',
];
const values = ['{"status":"up"}', 'not a status'];

describe('a resync', { concurrency: 2 }, () => {
  it('cleans up nothing before the dataplane is in sync, while updates are written all the same', async (t) => {
    const store = await Store.open(t);
    for (const key of stale) store.etcd.ctl('put', key, '{"status":"up"}');
    const host = await store.host([...unspaced, ...often]);
    await host.tell(vm('known'), up, down);
    await host.tell(nic('eth0'), up);
    await store.history.reaches(host.key(vm('known')), 2);
    await store.history.reaches(host.key(nic('eth0')), 1);
    await moreRuns(host, 2);
    for (const key of stale) assert.deepEqual(store.history.of(key), ['up']);
    host.inSync();
    for (const key of stale)
      await until(`${key} to be gone`, () => store.history.of(key).at(-1) === 'removed');
    assert.deepEqual(store.history.of(host.key(vm('known'))), ['up', 'down']);
    assert.deepEqual(store.history.of(host.key(nic('eth0'))), ['up']);
  });

  it('begins as soon as the dataplane is in sync, and not only at its next interval', async (t) => {
    const store = await Store.open(t);
    for (const key of stale) store.etcd.ctl('put', key, '{"status":"up"}');
    const host = await store.host([...unspaced, ...rarely]);
    host.inSync();
    for (const key of stale) assert.deepEqual(await store.history.reaches(key, 2), ['up', 'removed']);
  });

  it("cleans up this host's own keys only, readable or not", async (t) => {
    const store = await Store.open(t);
    for (const [i, key] of [...stale, ...foreign].entries()) store.etcd.ctl('put', key, values[i % 2]!);
    const host = await store.host([...unspaced, ...often]);
    host.inSync();
    for (const key of stale)
      await until(`${key} to be gone`, () => store.history.of(key).at(-1) === 'removed');
    await moreRuns(host, 2);
    for (const key of foreign) assert.equal(store.history.of(key).length, 1, key);
  });

  it('removes a key with an unreadable value where the dataplane says that its endpoint is gone', async (t) => {
    const store = await Store.open(t);
    const key = keyOf('gone');
    store.etcd.ctl('put', key, 'not a status');
    const host = await store.host([...unspaced, ...often]);
    host.feeder.send(vm('gone'), removed);
    await host.tell(vm('other'), up);
    host.inSync();
    await until('it to be gone', () => store.history.of(key).at(-1) === 'removed');
  });

  it('puts right what is unreadable, missing or different, and leaves alone what is right', async (t) => {
    const store = await Store.open(t);
    const host = await store.host([...unspaced, ...rarely]);
    for (const n of [1, 2, 3, 4]) await host.tell(vm(n), down);
    host.inSync();
    for (const n of [1, 2, 3, 4]) await store.history.reaches(keyOf(n), 1);
    store.etcd.ctl('put', keyOf(1), 'not a status');
    store.etcd.ctl('del', keyOf(2));
    store.etcd.ctl('put', keyOf(3), '{"status":"up"}');
    host.inSync(); // a resync at once
    await until('all three to be put right', () =>
      [1, 2, 3].every((n) => store.history.of(keyOf(n)).length >= 3),
    );
    assert.deepEqual(store.history.of(keyOf(1)), ['down', 'unreadable', 'down']);
    assert.deepEqual(store.history.of(keyOf(2)), ['down', 'removed', 'down']);
    assert.deepEqual(store.history.of(keyOf(3)), ['down', 'up', 'down']);
    assert.deepEqual(store.history.of(keyOf(4)), ['down']);
  });

  it('is made again where it could not list', async (t) => {
    const store = await Store.open(t);
    for (const key of stale) store.etcd.ctl('put', key, '{"status":"up"}');
    const proxy = await startProxy(store.etcd.endpoint);
    t.after(() => proxy.close());
    const host = await store.host([...unspaced, ...rarely, '--set=etcd.deadline=300ms'], {
      through: proxy.endpoint,
    });
    await host.tell(vm(1), up);
    await store.history.reaches(host.key(vm(1)), 1);
    proxy.blackhole(true);
    host.inSync();
    await until('two failures', async () => {
      return (await host.flapd.metric('flapd_resync_runs_total{result="failed"}')) >= 2;
    });
    for (const key of stale) assert.deepEqual(store.history.of(key), ['up']);
    proxy.blackhole(false);
    for (const key of stale) assert.deepEqual(await store.history.reaches(key, 2), ['up', 'removed']);
  });

  it('is carried through where its deletes fail at first, and deletes once', async (t) => {
    const store = await Store.open(t);
    for (const key of stale) store.etcd.ctl('put', key, '{"status":"up"}');
    const proxy = await startProxy(store.etcd.endpoint);
    t.after(() => proxy.close());
    const slow = ['--set=limits.txnsPerSecond=1', '--set=limits.burst=1', '--lanes=1'];
    const host = await store.host([...unspaced, ...rarely, ...slow], { through: proxy.endpoint });
    await host.tell(vm(1), up); // it takes the token: the deletes have to wait for theirs
    await store.history.reaches(host.key(vm(1)), 1);
    host.inSync();
    await until('the deletes to be decided', async () => {
      return (await host.flapd.metric('flapd_resync_corrections_total{action="deleted"}')) === stale.length;
    });
    proxy.cutReplies(2);
    for (const key of stale) await store.history.reaches(key, 2);
    assert.equal(await host.stop(), 0, host.flapd.words);
    for (const key of stale) assert.deepEqual(store.history.of(key), ['up', 'removed']);
  });

  it('does not mind a key that somebody else has deleted meanwhile', async (t) => {
    const store = await Store.open(t);
    store.etcd.ctl('put', stale[0]!, '{"status":"up"}');
    const slow = ['--set=limits.txnsPerSecond=2', '--set=limits.burst=1', '--lanes=1', '--set=txn.maxOps=2'];
    const host = await store.host([...unspaced, ...often, ...slow]);
    // One transaction each, two a second: the delete has a queue of five seconds before it.
    for (let n = 0; n < 10; n++) host.feeder.send(vm(n), up);
    await host.feeder.acknowledged();
    host.inSync();
    await until('the delete to be decided', () =>
      host.flapd.metric('flapd_resync_corrections_total{action="deleted"}'),
    );
    assert.equal(store.etcd.ctl('del', stale[0]!).trim(), '1');
    await until('all to be committed', async () => {
      return (await host.flapd.metric('flapd_pending_transitions')) === 0;
    });
    await moreRuns(host, 2);
    assert.equal(await host.flapd.metric('flapd_resync_corrections_total{action="deleted"}'), 1);
    assert.deepEqual(store.history.of(stale[0]!), ['up', 'removed']);
    assert.equal(await host.flapd.metric('flapd_txn_retries_total{reason="invalid"}'), 0);
    assert.equal((await host.flapd.get('/readyz')).ready, true);
  });
});
