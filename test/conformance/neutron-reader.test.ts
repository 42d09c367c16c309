/** Neutron's side of it: what its driver sees of what flapd writes, and what it makes of it. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { Status, statusName } from '../../src/endpoints/status.js';
import { vm } from '../support/host.js';
import { until } from '../support/waiting.js';
import { type FedHost, Store, unspaced } from './fed-host.js';
import { callGateway, Neutron, type NeutronOptions } from './neutron-driver.js';

const { up, down, removed } = Status;
/** As long as OpenStack's ids are. */
const port = (n: number) => vm(`-5709f1ad-0000-4000-8000-${String(n).padStart(12, '0')}`);

async function startNeutron(t: TestContext, store: Store, options?: NeutronOptions): Promise<Neutron> {
  const neutron = await Neutron.start(store.etcd.endpoint, options);
  t.after(() => neutron.stop());
  return neutron;
}

async function committed(host: FedHost, count: number): Promise<void> {
  await until(
    `${count} transitions to be committed`,
    async () => (await host.flapd.metric('flapd_transitions_committed_total')) === count,
  );
}

describe("Neutron's watch", { concurrency: 3 }, () => {
  it('delivers each event, also where a hundred come in one transaction (C25)', async (t) => {
    const store = await Store.open(t);
    const neutron = await startNeutron(t, store);
    const args = [...unspaced, '--lanes=1', '--set=txn.watchBytesMax=0'];
    const host = await store.host(args);
    const ports = Array.from({ length: 100 }, (_, n) => port(n));
    await host.tell(vm('first'), up);
    await committed(host, 1);
    store.etcd.kill('SIGSTOP');
    try {
      await host.tell(vm('first'), down); // its transaction is under way while the others come
      await until('it to be under way', () => host.flapd.metric('flapd_lane_inflight'));
      for (const status of [up, down, removed, down, up])
        for (const id of ports) host.feeder.send(id, status);
      await host.feeder.acknowledged();
    } finally {
      store.etcd.kill('SIGCONT');
    }
    await committed(host, 502);
    await until('Neutron to have been told of all', () => neutron.events.length >= 502);
    for (const id of ports) {
      assert.deepEqual(neutron.told(host.key(id)), ['up', 'down', null, 'down', 'up']);
      assert.deepEqual(await store.history.reaches(host.key(id), 5), ['up', 'down', 'removed', 'down', 'up']);
    }
    assert.equal(neutron.answers.filter(({ events }) => events === 100).length, 5);
    const revisions = neutron.events.map(({ revision }) => revision);
    assert.deepEqual(
      revisions,
      revisions.toSorted((a, b) => a - b),
    );
  });

  it('gets no answer of more than 2,048 bytes with the standard settings (C27)', async (t) => {
    const store = await Store.open(t);
    const neutron = await startNeutron(t, store);
    const host = await store.host();
    const ports = Array.from({ length: 100 }, (_, n) => port(n));
    for (const status of [down, up]) for (const id of ports) host.feeder.send(id, status);
    await host.feeder.acknowledged();
    await committed(host, 200);
    for (const id of ports) host.feeder.send(id, removed);
    await host.feeder.acknowledged();
    await committed(host, 300);
    for (const id of ports)
      await until('Neutron to have been told of it', () => neutron.told(host.key(id)).length === 3);
    for (const id of ports) assert.deepEqual(neutron.told(host.key(id)), ['down', 'up', null]);
    const longest = Math.max(...neutron.answers.map(({ bytes }) => bytes));
    assert.ok(longest <= 2048, `an answer of ${longest} bytes`);
    // The limit is made use of: it is not that every endpoint has a transaction of its own.
    assert.ok(neutron.answers.some(({ events }) => events >= 4));
  });

  it('tells of both hosts of a live migration, each by its own key (C26)', async (t) => {
    const store = await Store.open(t);
    const neutron = await startNeutron(t, store);
    const source = await store.host(unspaced, { where: { host: 'compute-1', region: null } });
    const destination = await store.host(unspaced, { where: { host: 'compute-2', region: null } });
    const migrating = port(1);
    await source.tell(migrating, down, up);
    await destination.tell(migrating, down, up);
    await source.tell(migrating, down, removed);
    await destination.tell(migrating, down, up);
    source.inSync();
    destination.inSync();
    await until('the source to be gone', () => neutron.told(source.key(migrating)).at(-1) === null);
    await until('all of the destination', () => neutron.told(destination.key(migrating)).length === 4);
    assert.deepEqual(neutron.told(source.key(migrating)), ['down', 'up', 'down', null]);
    assert.deepEqual(neutron.told(destination.key(migrating)), ['down', 'up', 'down', 'up']);
  });
});

describe("Neutron's driver, with the standard settings", { concurrency: 3 }, () => {
  it('acts on every transition of a rebuild (C1, C31)', async (t) => {
    const store = await Store.open(t);
    const neutron = await startNeutron(t, store);
    const host = await store.host();
    const key = host.key(port(1));
    await host.tell(port(1), up);
    await until('Neutron to have it up', () => neutron.database(key) === 'up');
    await host.tell(port(1), down, removed, up);
    const expected = ['up', 'down', null, 'down', 'up'];
    await until(
      `it to act on the last one; it has acted on ${neutron.acted(key)}`,
      () => neutron.acted(key).length >= expected.length,
    );
    assert.deepEqual(neutron.acted(key), expected);
  });

  it('acts on both transitions of a flap, however short it was (C1, C28)', async (t) => {
    const store = await Store.open(t);
    const neutron = await startNeutron(t, store);
    const host = await store.host();
    const key = host.key(port(1));
    await host.tell(port(1), up, down, up);
    await until('it to act on all three', () => neutron.acted(key).length >= 3);
    assert.deepEqual(neutron.acted(key), ['up', 'down', 'up']);
  });

  for (const [what, whileAway] of [
    ['that took what came while it was away', true],
    ['that had nothing to do while it was away', false],
  ] as const) {
    it(`is told the final values once more when it sees again, by a flapd ${what} (C29)`, async (t) => {
      const store = await Store.open(t);
      const neutron = await startNeutron(t, store, { blindMs: 10_000 });
      const host = await store.host();
      const finals = [up, down, up] as const;
      for (let n = 0; n < 4; n++) await host.tell(port(n), up);
      await until('Neutron to have them up', () => neutron.database(host.key(port(3))) === 'up');
      const change = async (): Promise<void> => {
        await host.tell(port(0), down, up); // a flap that Neutron will never know of
        await host.tell(port(1), down);
        await host.tell(port(2), down, up, down, up);
        await host.tell(port(3), removed);
      };
      store.etcd.kill('SIGKILL');
      if (whileAway) {
        await change();
        await until('flapd to notice', async () => (await host.flapd.metric('flapd_etcd_up')) === 0);
      }
      await store.etcd.restart();
      if (!whileAway) await change();
      await until('Neutron to watch again', () => neutron.watches === 2, { deadlineMs: 20_000 });
      const seenBefore = neutron.events.length;
      const toldSince = (n: number) =>
        neutron.events
          .slice(seenBefore)
          .filter(({ key }) => key === host.key(port(n)))
          .map(({ status }) => status);
      for (const [n, final] of finals.entries()) {
        await until(`port ${n} to be told again`, () => toldSince(n).length > 0, { deadlineMs: 20_000 });
        assert.equal(toldSince(n).at(-1), statusName(final));
      }
      // There is no key to put once more: that it is gone the snapshot has shown.
      await until('Neutron to be done', () => neutron.idle);
      assert.deepEqual(
        [0, 1, 2, 3].map((n) => neutron.database(host.key(port(n)))),
        ['up', 'down', 'up', null],
      );
    });
  }
});

// By itself: it is about time, which the others would take from it.
describe("Neutron's driver, with the standard settings, in a storm", () => {
  it('has the right final state within 15 s of 100 flaps in 10 ms (C28)', async (t) => {
    const store = await Store.open(t);
    const neutron = await startNeutron(t, store);
    const host = await store.host();
    const key = host.key(port(1));
    const endMs = performance.now() + 15_000;
    for (let i = 0; i < 100; i++) host.feeder.send(port(1), i % 2 === 0 ? up : down);
    await host.feeder.acknowledged();
    await until(
      'the last flap to be told, and Neutron to be done with the right status',
      () => neutron.told(key).length >= 100 && neutron.idle && neutron.database(key) === 'down',
      { deadlineMs: endMs - performance.now() },
    );
    await until('the confirmation to be told, and Neutron to be done', () => {
      return neutron.told(key).length === 101 && neutron.idle;
    });
    assert.equal(neutron.database(key), 'down');
    assert.deepEqual(
      store.history.of(key),
      Array.from({ length: 101 }, (_, i) => (i % 2 === 0 && i < 100 ? 'up' : 'down')),
    );
  });
});

describe('a value that would kill the watcher of Neutron (C30)', { concurrency: 2 }, () => {
  const unreadable = {
    'a JSON that is no object': '[1]',
    'a byte that is no UTF-8': Buffer.from('7b22737461747573223a22ff227d', 'hex'),
    'nothing at all': '',
  };
  it('is put right at once, not at the next resync', async (t) => {
    const store = await Store.open(t);
    const host = await store.host(['--set=resync.interval=1h']);
    await host.tell(port(1), up);
    host.inSync();
    await committed(host, 1);
    const key = host.key(port(1));
    for (const [what, value] of Object.entries(unreadable)) {
      const corrected = await host.flapd.metric('flapd_resync_corrections_total{action="repaired"}');
      await callGateway(store.etcd.endpoint, 'kv/put', {
        key: Buffer.from(key).toString('base64'),
        value: Buffer.from(value).toString('base64'),
      });
      await until(
        `${what} to be put right`,
        async () =>
          (await host.flapd.metric('flapd_resync_corrections_total{action="repaired"}')) > corrected &&
          store.history.of(key).at(-1) === 'up',
      );
    }
  });

  it('is deleted at once where nobody knows the endpoint', async (t) => {
    const store = await Store.open(t);
    const host = await store.host(['--set=resync.interval=1h']);
    await host.tell(port(1), up);
    host.inSync();
    await committed(host, 1);
    const unknown = host.key(port(2));
    store.etcd.ctl('put', unknown, 'null');
    await until('it to be gone', () => store.history.of(unknown).at(-1) === 'removed');
    assert.deepEqual(store.history.of(unknown), ['unreadable', 'removed']);
  });
});
