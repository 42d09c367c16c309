/** What has happened to people's compute nodes (docs/cases.md), where it takes a whole host to show it. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { Flapd } from '../support/flapd.js';
import { keyOf, vm } from '../support/host.js';
import { until } from '../support/waiting.js';
import { nic, Store, unspaced } from './fed-host.js';

const { up, down } = Status;

describe('a compute host', { concurrency: 2 }, () => {
  it('with 300 VMs reports its restart at once, not one VM a second (C3)', async (t) => {
    const store = await Store.open(t);
    const host = await store.host();
    const vms = Array.from({ length: 300 }, (_, n) => vm(n));
    for (const id of vms) host.feeder.send(id, up);
    await host.feeder.acknowledged();
    // One write a second, as it was, would take five minutes.
    await until('all to be written', () => vms.every((id) => store.history.of(host.key(id)).length === 1), {
      deadlineMs: 30_000,
    });
    await until('nothing to be pending', async () => {
      return (await host.flapd.metric('flapd_pending_transitions')) === 0;
    });
    assert.equal(await host.flapd.metric('flapd_oldest_pending_seconds'), 0);
  });

  it('whose etcd is away tells how much is pending, and for how long (C3)', async (t) => {
    const store = await Store.open(t);
    const host = await store.host(unspaced);
    await host.tell(vm(1), up);
    await store.history.reaches(keyOf(1), 1);
    store.etcd.kill('SIGSTOP');
    try {
      await host.tell(vm(1), down, up, down);
      await host.tell(vm(2), up);
      assert.equal(await host.flapd.metric('flapd_pending_transitions'), 4);
      const first = await until('an age', () => host.flapd.metric('flapd_oldest_pending_seconds'));
      await until('it to grow', async () => {
        return (await host.flapd.metric('flapd_oldest_pending_seconds')) > first;
      });
    } finally {
      store.etcd.kill('SIGCONT');
    }
    assert.deepEqual(await store.history.reaches(keyOf(1), 4), ['up', 'down', 'up', 'down']);
  });

  it('with one endpoint whose key etcd will never take sets that aside, and the others go on (C4)', async (t) => {
    const store = await Store.open(t, { args: ['--max-request-bytes=1500'] });
    const host = await store.host([...unspaced, '--lanes=1']);
    const tooLong = vm('x'.repeat(480)); // its key is in the transaction twice, and in the way of all in its lane
    host.feeder.send(vm(1), up);
    for (const status of [up, down]) host.feeder.send({ ...tooLong, endpoint: 'e'.repeat(500) }, status);
    await host.tell(vm(1), down, up);
    await host.tell(vm(2), up);
    assert.deepEqual(await store.history.reaches(keyOf(1), 3), ['up', 'down', 'up']);
    assert.deepEqual(await store.history.reaches(keyOf(2), 1), ['up']);
    assert.equal(await host.flapd.metric('flapd_dead_letters_total'), 2);
  });

  it('with one endpoint that flaps without end delays no other (C4)', async (t) => {
    const store = await Store.open(t);
    const host = await store.host(['--lanes=1', '--set=shutdown.drain=100ms']);
    for (let i = 0; i < 5000; i++) host.feeder.send(vm('hot'), i % 2 === 0 ? up : down);
    await host.tell(vm('calm'), up, down);
    assert.deepEqual(await store.history.reaches(keyOf('calm'), 2), ['up', 'down']);
    assert.ok((await host.flapd.metric('flapd_pending_transitions')) > 4000);
  });

  it('never has an endpoint twice in a transaction, however it flaps (C16)', async (t) => {
    const store = await Store.open(t);
    const host = await store.host([...unspaced, '--set=limits.txnsPerSecond=0', '--lanes=1']);
    for (let i = 0; i < 200; i++)
      for (let n = 0; n < 5; n++) host.feeder.send(vm(n), i % 2 === 0 ? up : down);
    await host.feeder.acknowledged();
    const expected = Array.from({ length: 200 }, (_, i) => (i % 2 === 0 ? 'up' : 'down'));
    for (let n = 0; n < 5; n++) assert.deepEqual(await store.history.reaches(keyOf(n), 200), expected);
    const metrics = await host.flapd.get('/metrics');
    assert.doesNotMatch(metrics, /^flapd_txn_retries_total/m);
    assert.equal(await host.flapd.metric('flapd_dead_letters_total'), 0);
  });

  it('counts what its worker threads do once, in a number of series that does not grow with endpoints (C24)', async (t) => {
    const store = await Store.open(t);
    const host = await store.host([...unspaced, '--workers=3']);
    const series = async () =>
      (await host.flapd.get('/metrics')).split('\n').filter((line) => /^flapd_/.test(line));
    for (let n = 0; n < 10; n++) await host.tell(vm(n), up, down);
    await host.tell(nic('eth0'), up, down);
    await until('all to be committed', async () => {
      return (await host.flapd.metric('flapd_transitions_committed_total')) === 22;
    });
    const few = (await series()).length;
    for (let n = 10; n < 500; n++) host.feeder.send(vm(n), up);
    for (let n = 10; n < 500; n++) host.feeder.send(vm(n), down);
    await host.feeder.acknowledged();
    await until('all to be committed', async () => {
      return (await host.flapd.metric('flapd_transitions_committed_total')) === 1002;
    });
    assert.equal((await series()).length, few);
    const cursors = JSON.parse(
      store.etcd.ctl('get', '--prefix', '/calico/flapd/v1/no-region/host/testhost/lane/', '-w', 'json'),
    ) as { kvs: { version: number }[] };
    // Each transaction puts its lane's cursor once.
    const txns = cursors.kvs.reduce((sum, { version }) => sum + version, 0);
    assert.equal(await host.flapd.metric('flapd_txn_duration_seconds_count{result="committed"}'), txns);
    assert.equal(await host.flapd.metric('flapd_txn_ops_sum'), 1002);
  });
});

describe('a host that cannot be', () => {
  for (const [what, args, words] of [
    ['a region with capitals (C32)', ['--region=Europe'], /region.*lower-case DNS label/],
    ['a region with a slash (C8)', ['--region=a/b'], /region.*lower-case DNS label/],
    ['a host name with a slash (C8)', ['--host=a/b'], /host.*which would leave its prefix/],
  ] as const) {
    it(`for it has ${what} is refused at the start, with the reason`, async () => {
      const flapd = await Flapd.start({ etcd: 'http://127.0.0.1:1', args });
      assert.equal(await flapd.exited, 78, flapd.words);
      assert.match(flapd.words, words);
      await flapd.stop();
    });
  }
});
