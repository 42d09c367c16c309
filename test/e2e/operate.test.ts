import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { flapd as command } from '../support/command.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, History, keyOf, vm } from '../support/host.js';

const { up, down } = Status;
const fast = ['--endpoints-from=feed', '--journal=memory', '--set=reader.confirm=false'];

describe('what an operator does to a running flapd', () => {
  let etcd: Etcd;
  let flapd: Flapd;
  let feeder: Feeder;
  let history: History;
  let socket: string;
  before(async () => {
    etcd = await startEtcd();
    history = new History(etcd.endpoint);
    flapd = await Flapd.start({ etcd: etcd.endpoint, args: [...fast] });
    socket = join(flapd.folder, 'admin.sock');
    await flapd.says('the feed socket is open');
    feeder = await Feeder.connect(flapd.feedSocket);
    for (const n of [1, 2]) feeder.send(vm(n), up);
    feeder.send(vm(2), down);
    await feeder.acknowledged();
    await history.reaches(keyOf(1), 1);
    await history.reaches(keyOf(2), 2);
  });
  after(async () => {
    await flapd.stop();
    await history.close();
    await etcd.close();
  });

  const ask = (...args: string[]) => command([...args, '--socket', socket]);

  it('status tells how it does', async () => {
    const { stdout, code } = await ask('status', '--json');
    const status = JSON.parse(stdout);
    assert.equal(code, 0);
    assert.equal(status.pid, flapd.pid);
    assert.equal(status.host, 'testhost');
    assert.equal(status.epoch, 1);
    assert.equal(status.health.ready, true);
    assert.deepEqual(status.endpoints, { 'workload up': 1, 'workload down': 1 });
    assert.equal(status.committed, 3);
    assert.equal(status.lanes.length, 4);
    const readable = await ask('status');
    assert.match(readable.stdout, /^state +ready$/m);
    assert.match(readable.stdout, /^pending +nothing$/m);
  });

  it('endpoints tells each status as it is known and as etcd has it', async () => {
    etcd.ctl('put', keyOf(1), 'rubbish');
    const { stdout, code } = await ask('endpoints', '--json');
    assert.equal(code, 0);
    const [first, second] = JSON.parse(stdout).endpoints;
    assert.equal(first.key, keyOf(1));
    assert.equal(first.status, 'up');
    assert.ok(['unreadable', 'up'].includes(first.inEtcd), first.inEtcd); // it may be put right already
    assert.deepEqual([second.status, second.inEtcd], ['down', 'down']);
    const readable = await ask('endpoints', '--known-only');
    assert.match(readable.stdout, /^vm +down +openstack\/openstack\/vm2\/port2$/m);
  });

  it('puts right at once what somebody else writes, counts it and says so', async () => {
    const before = await flapd.metric('flapd_foreign_writes_total');
    await history.reaches(keyOf(1), 3); // of the test above
    etcd.ctl('put', keyOf(2), '[]');
    const statuses = await history.reaches(keyOf(2), 4);
    assert.deepEqual(statuses, ['up', 'down', 'unreadable', 'down']);
    assert.equal(await flapd.metric('flapd_foreign_writes_total'), before + 1);
    const said = await flapd.says("somebody else writes this host's status keys");
    assert.deepEqual(said.keys, [keyOf(1)]);
  });

  it('loglevel shows and changes what is logged', async () => {
    assert.equal((await ask('loglevel')).stdout, 'info\n');
    assert.equal((await ask('loglevel', 'debug')).stdout, 'debug\n');
    assert.equal((await ask('loglevel')).stdout, 'debug\n');
    const refused = await ask('loglevel', 'loud');
    assert.equal(refused.code, 64);
    assert.match(refused.stderr, /"loud" is none of trace, debug, info, warn, error/);
    assert.equal((await ask('loglevel', 'info')).stdout, 'info\n');
  });

  it("its socket is for the daemon's own user alone", () => {
    assert.equal(statSync(socket).mode & 0o777, 0o600);
  });

  it('says where it looked when no daemon answers', async () => {
    const { code, stderr } = await command(['status', '--socket', join(flapd.folder, 'nobody.sock')]);
    assert.equal(code, 69);
    assert.match(stderr, /nobody\.sock: no flapd listens there\. Is it running/);
  });
});

describe('SIGHUP', () => {
  let etcd: Etcd;
  before(async () => {
    etcd = await startEtcd();
  });
  after(async () => {
    await etcd.close();
  });

  it('applies what can change, keeps what cannot, and keeps all when the new one is bad', async () => {
    const history = new History(etcd.endpoint);
    const folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    const file = join(folder, 'flapd.yaml');
    writeFileSync(file, '{}');
    const flapd = await Flapd.start({ etcd: etcd.endpoint, args: [...fast, `--config=${file}`] });
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    assert.equal(await flapd.metric('flapd_txn_rate'), 50);

    writeFileSync(file, 'limits:\n  txnsPerSecond: 7\n  endpointDelay: 0\nlanes: 9\n');
    flapd.kill('SIGHUP');
    const said = await flapd.says('the configuration was loaded anew');
    assert.deepEqual([...(said.changed as string[])].sort(), [
      'limits.endpointDelay',
      'limits.txnsPerSecond',
    ]);
    assert.deepEqual(said.needRestart, ['lanes']);
    assert.equal(await flapd.metric('flapd_txn_rate'), 7);
    assert.equal(await flapd.metric('flapd_config_reloads_total{result="ok"}'), 1);

    // With the spacing gone, what comes close together goes close together.
    for (const status of [up, down, up, down]) feeder.send(vm('spacing'), status);
    await feeder.acknowledged();
    await history.reaches(keyOf('spacing'), 4);

    writeFileSync(file, 'limits:\n  txnsPerSecond: many\n  burst: -1\n');
    flapd.kill('SIGHUP');
    const refused = await flapd.says('the new configuration is refused');
    assert.match(String(refused.why), /limits\.txnsPerSecond.*many/);
    assert.match(String(refused.why), /limits\.burst.*-1/);
    assert.equal(await flapd.metric('flapd_txn_rate'), 7);
    assert.equal(await flapd.metric('flapd_config_reloads_total{result="refused"}'), 1);

    assert.equal(await flapd.stop(), 0);
    await history.close();
    rmSync(folder, { recursive: true });
  });
});
