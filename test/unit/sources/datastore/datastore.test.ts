import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { DatastoreSource } from '../../../../src/sources/datastore/datastore.js';
import {
  hostEndpoint,
  hostEndpointKey,
  type Port,
  type Resource,
  workloadEndpoint,
  workloadEndpointId,
} from '../../../support/calico.js';
import { FakeEtcd, settled, Told } from './fake-etcd.js';

const [workloads, hosts] = ['workloadendpoints', 'hostendpoints'] as const;

const vm = (n: number, parts: Partial<Port> = {}): Resource => workloadEndpoint(portOf(n, parts));
const portOf = (n: number, parts: Partial<Port> = {}): Port => ({
  node: 'node-a',
  vm: `vm${n}`,
  port: `port${n}`,
  interfaceName: `tap${n}`,
  ...parts,
});
const gone = ({ key }: Resource) => ({ key, value: null });
const broken = ({ key }: Resource) => ({ key, value: '{"spec": ' });

describe('the datastore source', () => {
  let etcd: FakeEtcd;
  let told: Told;
  let source: DatastoreSource;
  let random: number;
  let nowUs: number;
  beforeEach(() => {
    etcd = new FakeEtcd();
    told = new Told();
    random = 0;
    nowUs = 1000;
    source = new DatastoreSource({
      where: { host: 'node-a', region: null },
      list: etcd.list,
      watch: etcd.watch,
      pause: etcd.pause,
      random: () => random,
      nowUs: () => nowUs,
      events: told,
      log: { info: () => undefined },
    });
  });
  afterEach(async () => {
    await source.stop();
  });

  /** In sync, with these workload endpoints, at revision 10; what was told of it is forgotten. */
  async function started(...resources: Resource[]): Promise<void> {
    await source.start();
    await etcd.answer(workloads, 10, resources);
    await etcd.answer(hosts, 10, []);
    assert.equal(source.inSync, true);
    told.take();
  }

  it('tells what is listed, then is in sync: when both kinds of endpoint have been', async () => {
    await source.start();
    assert.deepEqual(
      etcd.lists.map(({ prefix }) => prefix),
      [
        '/calico/resources/v3/projectcalico.org/workloadendpoints/openstack/node--a-',
        '/calico/resources/v3/projectcalico.org/hostendpoints/',
      ],
    );
    await etcd.answer(workloads, 10, [vm(1), vm(2)]);
    assert.deepEqual(told.take(), ['defined port1 tap1', 'defined port2 tap2']);
    assert.equal(source.inSync, false);
    await etcd.answer(hosts, 12, [hostEndpoint({ name: 'hep', node: 'node-a', interfaceName: '*' })]);
    assert.deepEqual(told.take(), ['defined hep * []', 'in sync']);
    assert.equal(source.inSync, true);
    assert.deepEqual(told.times, [1000, 1000, 1000]);
  });

  it('watches from the revision after the list, so that nothing falls between', async () => {
    await source.start();
    await etcd.answer(workloads, 10, []);
    await etcd.answer(hosts, 12, []);
    assert.deepEqual(
      etcd.watches.map(({ prefix, fromRevision }) => [prefix.includes(hosts), fromRevision]),
      [
        [false, 11],
        [true, 13],
      ],
    );
    etcd.watchOf(hosts).onConnected();
    assert.deepEqual(told.take(), ['in sync', 'following the host endpoints']);
  });

  it('tells of each endpoint that comes, changes and goes, in that order, with the time', async () => {
    await started();
    nowUs = 2000;
    await etcd.tell(workloads, vm(1), vm(1, { interfaceName: 'tapx' }), gone(vm(1)), vm(1));
    assert.deepEqual(told.take(), [
      'defined port1 tap1',
      'defined port1 tapx',
      'undefined port1',
      'defined port1 tap1',
    ]);
    assert.deepEqual(told.times, [2000, 2000, 2000, 2000]);
  });

  it('does not tell again what is written anew without a change that matters', async () => {
    await started(vm(1));
    await etcd.tell(workloads, vm(1, { labels: { 'a label': 'changed' } }), vm(1, { ips: ['10.9.9.9'] }));
    assert.deepEqual(told.take(), []);
  });

  it('takes an endpoint that has no networks any more for gone, until it has some', async () => {
    await started(vm(1), vm(2, { ips: [] }));
    assert.equal(source.figures.definitions, 1);
    await etcd.tell(workloads, vm(1, { ips: [] }), vm(2), vm(1, { ips: [] }));
    assert.deepEqual(told.take(), ['undefined port1', 'defined port2 tap2']);
  });

  it('tells of a migration what this host sees of it: its own resource coming or going', async () => {
    await started(vm(1));
    await etcd.tell(workloads, gone(vm(1)), vm(2));
    assert.deepEqual(told.take(), ['undefined port1', 'defined port2 tap2']);
    const elsewhere = JSON.parse(vm(2).value) as { spec: { node: string } };
    elsewhere.spec.node = 'node-b';
    await etcd.tell(workloads, { key: vm(2).key, value: JSON.stringify(elsewhere) });
    assert.deepEqual(told.take(), ['undefined port2']);
  });

  it("knows host endpoints by their node: one that is moved here or away comes or goes, others' are nothing", async () => {
    await started();
    const hep = (node: string) => hostEndpoint({ name: 'hep', node, expectedIPs: ['10.0.0.1', 'fd00::1'] });
    await etcd.tell(hosts, hep('node-b'), hep('node-a'), hep('node-a'), hep('node-b'), gone(hep('node-b')));
    assert.deepEqual(told.take(), ['defined hep  [10.0.0.1 fd00::1]', 'undefined hep']);
  });

  describe('given a resource that it cannot read', () => {
    it('keeps the endpoint as it was, says so once, and counts each time', async () => {
      await started(vm(1), vm(2));
      await etcd.tell(
        workloads,
        broken(vm(1)),
        { key: vm(1).key, value: '[]' },
        vm(2, { interfaceName: 'x' }),
      );
      assert.deepEqual(told.take(), [
        'damaged node--a-openstack-vm1-port1: it is no JSON',
        'defined port2 x',
      ]);
      assert.deepEqual(
        { ...source.figures },
        { lists: 2, failures: 0, gaps: 0, changes: 3, damages: 2, unreadable: 1, definitions: 2 },
      );
      assert.deepEqual([...source.unreadable()], [workloadEndpointId(portOf(1))]);
    });

    it('takes the next one that it can read, and tells what has changed', async () => {
      await started(vm(1));
      await etcd.tell(workloads, broken(vm(1)), vm(1));
      assert.deepEqual(told.take().slice(1), ['repaired node--a-openstack-vm1-port1']);
      await etcd.tell(workloads, broken(vm(1)), vm(1, { interfaceName: 'x' }));
      assert.deepEqual(told.take().slice(1), ['repaired node--a-openstack-vm1-port1', 'defined port1 x']);
      assert.equal(source.figures.unreadable, 0);
    });

    it('tells that the endpoint is gone when the resource is deleted', async () => {
      await started(vm(1));
      await etcd.tell(workloads, broken(vm(1)), gone(vm(1)));
      assert.deepEqual(told.take().slice(1), ['repaired node--a-openstack-vm1-port1', 'undefined port1']);
      assert.deepEqual([...source.unreadable()], []);
    });

    it('is in sync all the same, and tells the endpoint once it can be read', async () => {
      await source.start();
      await etcd.answer(hosts, 10, []);
      await etcd.answer(workloads, 10, [{ key: vm(1).key, value: '{' }, vm(2)]);
      assert.deepEqual(told.take(), [
        'damaged node--a-openstack-vm1-port1: it is no JSON',
        'defined port2 tap2',
        'in sync',
      ]);
      await etcd.tell(workloads, vm(1));
      assert.deepEqual(told.take(), ['repaired node--a-openstack-vm1-port1', 'defined port1 tap1']);
    });

    it('names those that are there and cannot be read, also host endpoints of nobody knows whom', async () => {
      await source.start();
      await etcd.answer(workloads, 10, [
        { key: `${vm(1).key}-more`, value: vm(1).value },
        { key: vm(2).key, value: '' },
      ]);
      await etcd.answer(hosts, 10, [{ key: hostEndpointKey('hep'), value: '?' }]);
      assert.deepEqual(
        [...source.unreadable()],
        [workloadEndpointId(portOf(2)), { kind: 'host', endpoint: 'hep' }],
      );
      assert.equal(source.figures.unreadable, 3);
    });

    it('says nothing again of one that a new list still shows so, and forgets one that it does not', async () => {
      await started(vm(1), vm(2));
      await etcd.tell(workloads, broken(vm(1)), broken(vm(2)));
      await etcd.compact(workloads, 50);
      await etcd.endPauses();
      told.take();
      await etcd.answer(workloads, 60, [{ key: vm(1).key, value: '{' }]);
      assert.deepEqual(told.take(), ['repaired node--a-openstack-vm2-port2', 'undefined port2']);
      assert.equal(source.figures.definitions, 1);
    });
  });

  describe('when its watch cannot go on', () => {
    it('lists again, tells the difference, what is gone first, and watches on from there', async () => {
      await started(vm(1), vm(2), vm(3));
      await etcd.compact(workloads, 50);
      assert.deepEqual(told.take(), []);
      await etcd.endPauses();
      await etcd.answer(workloads, 60, [
        vm(2),
        vm(3, { interfaceName: 'x' }),
        vm(4, { interfaceName: 'tap1' }),
      ]);
      assert.deepEqual(told.take(), ['undefined port1', 'defined port3 x', 'defined port4 tap1']);
      assert.equal(etcd.watchOf(workloads).fromRevision, 61);
      assert.equal(source.figures.gaps, 1);
    });

    it('goes on from a lower revision where etcd was set back', async () => {
      await started(vm(1));
      await etcd.compact(workloads, 5);
      await etcd.endPauses();
      await etcd.answer(workloads, 5, []);
      assert.deepEqual(told.take(), ['undefined port1']);
      assert.equal(etcd.watchOf(workloads).fromRevision, 6);
    });

    it('stays in sync, and lists only what has the gap', async () => {
      await started(vm(1));
      await etcd.compact(workloads, 50);
      await etcd.endPauses();
      assert.equal(source.inSync, true);
      assert.equal(etcd.lists.length, 1);
      await etcd.answer(workloads, 60, [vm(1)]);
      assert.deepEqual(told.take(), [], 'in sync is told once');
    });

    it('never lists without a pause, also where watches end again and again', async () => {
      await started();
      for (random of [0, 0.5, 0.999]) {
        await etcd.compact(workloads, 50);
        assert.equal(etcd.lists.length, 0);
        assert.equal(etcd.pauses[0]!.ms, 1000 * (0.5 + random / 2));
        await etcd.endPauses();
        await etcd.answer(workloads, 60, []);
      }
    });

    it('lists again at once when told to, and takes no answer to what was asked before', async () => {
      await started(vm(1), vm(2));
      const before = etcd.watchOf(workloads);
      source.listAgain();
      await settled();
      assert.equal(before.signal.aborted, true);
      assert.deepEqual(etcd.pauses, []);
      assert.equal(etcd.lists.length, 2);
      const early = etcd.lists.shift()!; // of the workload endpoints
      source.listAgain();
      early.answer({ revision: 20, keys: [] });
      await settled();
      assert.deepEqual(told.take(), []);
      await etcd.answer(workloads, 30, [vm(2), vm(3)]);
      assert.deepEqual(told.take(), ['undefined port1', 'defined port3 tap3']);
      assert.equal(etcd.watchOf(workloads).fromRevision, 31);
      assert.equal(source.inSync, true);
    });

    it('tells nothing and keeps all while it cannot be reached', async () => {
      await started(vm(1));
      etcd.watchOf(workloads).onFailure({ message: '14 UNAVAILABLE' });
      etcd.watchOf(workloads).onConnected();
      assert.deepEqual(told.take(), [
        'workload endpoints failing: 14 UNAVAILABLE',
        'following the workload endpoints',
      ]);
      assert.equal(source.figures.failures, 1);
      assert.equal(etcd.lists.length, 0);
    });
  });

  it('tries a list that fails for ever, at longer and longer intervals up to 10 s', async () => {
    await source.start();
    await etcd.answer(hosts, 10, []);
    const waits: number[] = [];
    for (let i = 0; i < 6; i++) {
      random = 0.999999;
      await etcd.refuse(workloads, new Error('14 UNAVAILABLE: no connection'));
      waits.push(Math.round(etcd.pauses[0]!.ms));
      await etcd.endPauses();
    }
    assert.deepEqual(waits, [1000, 2000, 4000, 8000, 10_000, 10_000]);
    assert.deepEqual(
      told.take(),
      Array.from({ length: 6 }, () => 'workload endpoints failing: 14 UNAVAILABLE: no connection'),
    );
    assert.equal(source.inSync, false);
    await etcd.answer(workloads, 20, [vm(1)]);
    assert.deepEqual(told.take(), ['defined port1 tap1', 'in sync']);
    assert.equal(source.figures.failures, 6);
    // What was long ago does not make the next wait longer.
    await etcd.compact(workloads, 50);
    assert.equal(Math.round(etcd.pauses[0]!.ms), 1000);
  });

  it('says also what is no Error', async () => {
    await source.start();
    await etcd.refuse(hosts, 'a string');
    assert.deepEqual(told.take(), ['host endpoints failing: a string']);
  });

  describe('when it is stopped', () => {
    it('waits for no list, and tells nothing of one that comes too late', async () => {
      await source.start();
      const [late, failing] = etcd.lists;
      await source.stop();
      late!.answer({ revision: 10, keys: [{ key: vm(1).key, value: Buffer.from(vm(1).value) }] });
      failing!.fail(new Error('too late'));
      await settled();
      assert.deepEqual(told.take(), []);
      assert.equal(etcd.watches.length, 0);
    });

    it('tells nothing of a list that comes at that very moment', async () => {
      await source.start();
      etcd.lists[0]!.answer({ revision: 10, keys: [{ key: vm(1).key, value: Buffer.from(vm(1).value) }] });
      await source.stop();
      assert.deepEqual(told.take(), []);
    });

    it('ends its watches, and tells nothing of what these still say', async () => {
      await started();
      const watch = etcd.watchOf(workloads);
      await source.stop();
      assert.equal(watch.signal.aborted, true);
      watch.onEvents([{ key: vm(1).key, value: Buffer.from(vm(1).value) }]);
      assert.deepEqual(told.take(), []);
    });

    it('ends also while it waits to try again', async () => {
      await source.start();
      await etcd.refuse(workloads, new Error('no'));
      await source.stop();
      assert.equal(etcd.lists.filter(({ prefix }) => prefix.includes(workloads)).length, 0);
    });
  });
});
