/**
 * What Felix's own reporter is tested for, one update after another (Calico, felix/statusrep). Where that reporter
 * keeps only the last of several updates, flapd writes each: that is what it is for.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { History, vm } from '../support/host.js';
import { until } from '../support/waiting.js';
import { FedHost, nic, Store, unspaced } from './fed-host.js';

const { up, down, error, removed } = Status;

describe('updates from the dataplane', () => {
  let etcd: Etcd;
  let history: History;
  let host: FedHost;
  before(async () => {
    etcd = await startEtcd();
    history = new History(etcd.endpoint);
    host = await FedHost.start(etcd.endpoint, unspaced);
  });
  after(async () => {
    assert.equal(await host.stop(), 0, host.flapd.words);
    await history.close();
    await etcd.close();
  });
  /** Its history once all that was accepted is committed: so that one write too many would be seen. */
  const whole = async (key: string, length: number): Promise<string[]> => {
    await history.reaches(key, length);
    await until(
      'nothing to be pending',
      async () => (await host.flapd.metric('flapd_pending_transitions')) === 0,
    );
    return history.of(key);
  };

  it('of a flapping workload endpoint are all written, in order; the status that it has already is not', async () => {
    await host.tell(vm('flap'), up, up, down, up, up, down, down);
    assert.deepEqual(await whole(host.key(vm('flap')), 4), ['up', 'down', 'up', 'down']);
  });

  it('of a workload endpoint that comes and goes are all written, each coming with down first', async () => {
    await host.tell(vm('coming'), up, up, removed, up, removed, removed);
    assert.deepEqual(await whole(host.key(vm('coming')), 5), ['up', 'removed', 'down', 'up', 'removed']);
  });

  it('of a flapping host endpoint are all written, in order; the status that it has already is not', async () => {
    await host.tell(nic('eth0'), up, up, down, error, up, up, down);
    assert.deepEqual(await whole(host.key(nic('eth0')), 5), ['up', 'down', 'error', 'up', 'down']);
  });

  it('of a host endpoint that comes and goes are all written', async () => {
    await host.tell(nic('eth1'), up, up, removed, up, removed);
    assert.deepEqual(await whole(host.key(nic('eth1')), 5), ['up', 'removed', 'down', 'up', 'removed']);
  });

  it('that come while etcd stands still are all written, in order', async () => {
    await host.tell(vm('still'), up);
    await history.reaches(host.key(vm('still')), 1);
    etcd.kill('SIGSTOP');
    await host.tell(vm('still'), down, up, removed, up, down).finally(() => etcd.kill('SIGCONT'));
    assert.deepEqual(await whole(host.key(vm('still')), 7), [
      'up',
      'down',
      'up',
      'removed',
      'down',
      'up',
      'down',
    ]);
  });

  it('of a removal of what is not there, write nothing', async () => {
    await host.tell(vm('never'), removed);
    await host.tell(vm('after'), up);
    await history.reaches(host.key(vm('after')), 1);
    assert.deepEqual(await whole(host.key(vm('never')), 0), []);
  });

  it('that call a workload endpoint an error are written as down: Nova would give the VM up (C2)', async () => {
    await host.tell(vm('error'), up, error, up);
    assert.deepEqual(await whole(host.key(vm('error')), 3), ['up', 'down', 'up']);
  });
});

describe('updates on hosts of their own', () => {
  it('with the standard settings, are all written too, and none twice', async (t) => {
    const store = await Store.open(t);
    const host = await store.host();
    await host.tell(vm(1), up, down, up, removed, up);
    const expected = ['up', 'down', 'up', 'removed', 'down', 'up'];
    assert.deepEqual(await store.history.reaches(host.key(vm(1)), expected.length), expected);
    assert.equal(await host.stop(), 0, host.flapd.words);
    assert.deepEqual(store.history.of(host.key(vm(1))), expected);
  });

  it('that change nothing are acknowledged as well, be they the very first', async (t) => {
    const host = await (await Store.open(t)).host();
    await host.tell(vm(1), removed); // it waits for the acknowledgement
    assert.equal(await host.flapd.metric('flapd_transitions_ignored_total{reason="unchanged"}'), 1);
  });

  it('in a region, have it in the keys of workload endpoints, and host endpoints have none', async (t) => {
    const store = await Store.open(t);
    const { history } = store;
    const where = { host: 'compute-1', region: 'europe' };
    const host = await store.host(unspaced, { where });
    await host.tell(vm('r'), up, down);
    await host.tell(nic('eth0'), up);
    const workload =
      '/calico/felix/v2/region-europe/host/compute-1/workload/openstack/openstack%2fvmr/endpoint/portr';
    const ofHost = '/calico/felix/v1/host/compute-1/endpoint/eth0';
    assert.deepEqual(await history.reaches(workload, 2), ['up', 'down']);
    assert.deepEqual(await history.reaches(ofHost, 1), ['up']);
    assert.deepEqual(history.keys.sort(), [ofHost, workload]);
  });
});
