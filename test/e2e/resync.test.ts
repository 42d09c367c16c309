import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { frame } from '../../src/sources/felix/frames.js';
import { encodeInSync } from '../../src/sources/felix/messages.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, keyOf, vm } from '../support/host.js';
import { until } from '../support/waiting.js';

const { up, down } = Status;

describe('a resync', () => {
  let etcd: Etcd;
  let flapd: Flapd;
  let feeder: Feeder;
  const get = (key: string): string => etcd.ctl('get', '--print-value-only', key).trim();
  const foreign = [
    '/calico/felix/v2/no-region/host/testhost2/workload/openstack/x/endpoint/y',
    '/calico/felix/v2/region-other/host/testhost/workload/openstack/x/endpoint/y',
    '/calico/felix/v2/no-region/host/testhost/workload/strange',
    '/calico/felix/v2/no-region/host/testhost/status',
    '/calico/felix/v1/host/testhost2/endpoint/eth0',
  ];

  before(async () => {
    etcd = await startEtcd();
    for (const key of foreign) etcd.ctl('put', key, 'somebody else');
    etcd.ctl('put', keyOf('stale'), '{"status":"up"}');
    flapd = await Flapd.start({
      etcd: etcd.endpoint,
      args: [
        '--endpoints-from=feed',
        '--journal=memory',
        '--set=resync.interval=1s',
        '--set=limits.endpointDelay=0',
        '--set=reader.confirm=false',
      ],
    });
    await flapd.says('the feed socket is open');
    feeder = await Feeder.connect(flapd.feedSocket);
    feeder.send(vm(1), up);
    feeder.send(vm(2), down);
    feeder.send(vm(3), up);
    await feeder.acknowledged();
    await until('the keys', () => get(keyOf(3)) === '{"status":"up"}');
  });
  after(async () => {
    await flapd.stop();
    await etcd.close();
  });

  it('removes keys that nobody knows once the dataplane is in sync, and not before (C9)', async () => {
    const before = await flapd.metric('flapd_resync_runs_total{result="clean"}');
    await until(
      'two more runs',
      async () => (await flapd.metric('flapd_resync_runs_total{result="clean"}')) >= before + 2,
    );
    assert.equal(get(keyOf('stale')), '{"status":"up"}');
    feeder.sendRaw(frame(encodeInSync()));
    await until('the stale key to go', () => get(keyOf('stale')) === '');
  });

  it('writes again a key that was deleted (C10)', async () => {
    etcd.ctl('del', keyOf(1));
    await until('the key to be there again', () => get(keyOf(1)) === '{"status":"up"}');
  });

  it('repairs a value that is unreadable, and one that is another (C11, C30)', async () => {
    for (const value of ['[1]', 'null', '{"status":"up"}', '"down"']) {
      etcd.ctl('put', keyOf(2), value);
      await until(`the value ${value} to be put right`, () => get(keyOf(2)) === '{"status":"down"}');
    }
    assert.ok((await flapd.metric('flapd_resync_corrections_total{action="repaired"}')) >= 4);
  });

  it('leaves keys of other hosts and regions, and of a shape that is none, alone', () => {
    for (const key of foreign) assert.equal(get(key), 'somebody else', key);
  });

  it('writes nothing where all is right', async () => {
    const revision = (): number =>
      (
        JSON.parse(etcd.ctl('get', '/calico/felix', '--prefix', '-w', 'json')) as {
          header: { revision: number };
        }
      ).header.revision;
    const before = revision();
    const runs = await flapd.metric('flapd_resync_runs_total{result="clean"}');
    await until(
      'two more runs',
      async () => (await flapd.metric('flapd_resync_runs_total{result="clean"}')) >= runs + 2,
    );
    assert.equal(revision(), before);
  });
});
