import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd, mainFile } from '../support/flapd.js';
import { Feeder, History, keyOf, vm } from '../support/host.js';

describe('flapd claim and flapd cursor', () => {
  let etcd: Etcd;
  before(async () => {
    etcd = await startEtcd();
  });
  after(() => etcd.close());
  const flapd = (...args: string[]): unknown =>
    JSON.parse(
      execFileSync(
        process.execPath,
        [mainFile, ...args, '--etcd', etcd.endpoint, '--host', 'testhost', '--json'],
        {
          encoding: 'utf8',
        },
      ),
    );
  const args = ['--endpoints-from=feed', '--journal=memory'];
  const key = '/calico/flapd/v1/no-region/host/testhost/claim';

  it('show who writes for a host, and what is committed', async () => {
    assert.equal(flapd('claim'), null);
    const daemon = await Flapd.start({ etcd: etcd.endpoint, args });
    await daemon.says('the feed socket is open');
    const feeder = await Feeder.connect(daemon.feedSocket);
    const history = new History(etcd.endpoint);
    feeder.send(vm(1), Status.up);
    await feeder.acknowledged();
    await history.reaches(keyOf(1), 1);
    await history.close();
    assert.equal((flapd('claim') as { epoch: number }).epoch, 1);
    const { claim, cursors } = flapd('cursor') as {
      claim: { lanes: number };
      cursors: { number: number; ack: number }[];
    };
    assert.equal(claim.lanes, 4);
    assert.ok(
      cursors.some(({ number, ack }) => number >= 1 && ack > 0),
      JSON.stringify(cursors),
    );
    assert.equal(await daemon.stop(), 0);
  });

  it('of another machine is not taken by a daemon, which says how: flapd claim --take', async () => {
    const other = { ...(flapd('claim') as object), machine: 'another' };
    etcd.ctl('put', key, JSON.stringify(other));
    const refused = await Flapd.start({ etcd: etcd.endpoint, args });
    assert.equal(await refused.exited, 77, refused.words);
    assert.match(refused.words, /machine another holds this host's claim/);
    assert.match(refused.words, /flapd claim --take/);
    await refused.stop();
    flapd('claim', '--take');
    const daemon = await Flapd.start({ etcd: etcd.endpoint, args });
    await daemon.ready();
    assert.equal(await daemon.stop(), 0, daemon.words);
  });
});
