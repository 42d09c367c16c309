import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { freePort } from '../../src/etcd/embedded.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, History, keyOf, statusFrame, vm } from '../support/host.js';
import { until } from '../support/waiting.js';

const { up, down, removed } = Status;
const fast = [
  '--endpoints-from=feed',
  '--journal=memory',
  '--set=limits.endpointDelay=0',
  '--set=reader.confirm=false',
];

describe('the daemon on a real etcd', () => {
  let etcd: Etcd;
  let history: History;
  before(async () => {
    etcd = await startEtcd();
    history = new History(etcd.endpoint);
  });
  after(async () => {
    await history.close();
    await etcd.close();
  });

  it('writes every transition once and in order, and ignores what is no change', async () => {
    const flapd = await Flapd.start({ etcd: etcd.endpoint, args: fast });
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    for (const status of [up, up, down, up, down, down, up]) feeder.send(vm('order'), status);
    await feeder.acknowledged();
    assert.deepEqual(await history.reaches(keyOf('order'), 5), ['up', 'down', 'up', 'down', 'up']);
    assert.equal(await flapd.stop(), 0, flapd.words);
    assert.deepEqual(history.of(keyOf('order')), ['up', 'down', 'up', 'down', 'up']);
  });

  it('begins with down what comes back after a removal (C31)', async () => {
    const flapd = await Flapd.start({ etcd: etcd.endpoint, args: fast });
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    for (const status of [up, removed, up]) feeder.send(vm('back'), status);
    await feeder.acknowledged();
    assert.deepEqual(await history.reaches(keyOf('back'), 4), ['up', 'removed', 'down', 'up']);
    assert.equal(await flapd.stop(), 0);
  });

  it('does not write again at its start what etcd has already', async () => {
    const flapd = await Flapd.start({ etcd: etcd.endpoint, args: fast });
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    feeder.send(vm('order'), up);
    feeder.send(vm('new'), up);
    await feeder.acknowledged();
    await history.reaches(keyOf('new'), 1);
    assert.equal(await flapd.stop(), 0);
    assert.deepEqual(history.of(keyOf('order')), ['up', 'down', 'up', 'down', 'up']);
  });

  it('hands over to a second one: the first ends with 77, each transition is there once', async () => {
    const first = await Flapd.start({ etcd: etcd.endpoint, args: fast });
    await first.says('the feed socket is open');
    const feeder = await Feeder.connect(first.feedSocket);
    for (let i = 0; i < 20; i++) feeder.send(vm('handover'), i % 2 === 0 ? up : down);
    await feeder.acknowledged();
    await history.reaches(keyOf('handover'), 20);
    const second = await Flapd.start({ etcd: etcd.endpoint, args: fast });
    // The first one has nothing to write: it must notice all the same.
    assert.equal(await first.exited, 77, first.words);
    await second.says('the feed socket is open');
    const next = await Feeder.connect(second.feedSocket);
    for (let i = 0; i < 20; i++) next.send(vm('handover'), i % 2 === 0 ? up : down);
    await next.acknowledged();
    const statuses = await history.reaches(keyOf('handover'), 40);
    assert.deepEqual(
      statuses,
      Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? 'up' : 'down')),
    );
    assert.equal(await second.stop(), 0, second.words);
    await first.stop();
  });

  it('answers bad frames on their own connection, and disturbs nobody else', async () => {
    const flapd = await Flapd.start({ etcd: etcd.endpoint, args: fast });
    await flapd.says('the feed socket is open');
    const good = await Feeder.connect(flapd.feedSocket);
    const tooLong = Buffer.alloc(8);
    tooLong.writeUInt32LE(70_000, 0);
    const garbage = Buffer.concat([
      Buffer.from([5, 0, 0, 0, 0, 0, 0, 0]),
      Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff]),
    ]);
    const noId = statusFrame({ kind: 'workload', orchestrator: 'o', workload: '', endpoint: 'e' }, up, 1);
    for (const [bytes, result] of [
      [tooLong, 'tooLong'],
      [garbage, 'invalid'],
      [noId, 'invalid'],
    ] as const) {
      const before = await flapd.metric(`flapd_feed_frames_total{source="felix",result="${result}"}`);
      const bad = await Feeder.connect(flapd.feedSocket);
      bad.sendRaw(bytes);
      await until('the bad connection to be closed', () => bad.closed);
      assert.equal(
        await flapd.metric(`flapd_feed_frames_total{source="felix",result="${result}"}`),
        before + 1,
      );
    }
    const cut = await Feeder.connect(flapd.feedSocket);
    cut.sendRaw(statusFrame(vm('cut'), up, 1).subarray(0, 20));
    await cut.end();
    await until('the cut frame to be counted', () =>
      flapd.metric('flapd_feed_frames_total{source="felix",result="cutShort"}'),
    );
    good.send(vm('good'), up);
    await good.acknowledged();
    assert.deepEqual(await history.reaches(keyOf('good'), 1), ['up']);
    assert.equal(good.closed, false);
    assert.equal(history.keys.includes(keyOf('cut')), false);
    assert.equal(await flapd.stop(), 0, flapd.words);
  });

  it('keeps its promise over a killed and a frozen etcd', async () => {
    const flapd = await Flapd.start({ etcd: etcd.endpoint, args: fast });
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    const expected: string[] = [];
    const flap = (times: number): void => {
      for (let i = 0; i < times; i++) {
        const status = expected.length % 2 === 0 ? up : down;
        feeder.send(vm('outage'), status);
        expected.push(status === up ? 'up' : 'down');
      }
    };
    flap(50);
    etcd.kill('SIGKILL');
    flap(50);
    await feeder.acknowledged();
    await etcd.restart();
    flap(20);
    etcd.kill('SIGSTOP');
    flap(20);
    await until('flapd to notice', async () => !(await flapd.get('/readyz')).ready);
    etcd.kill('SIGCONT');
    flap(10);
    await feeder.acknowledged();
    assert.deepEqual(await history.reaches(keyOf('outage'), expected.length, 60_000), expected);
    await flapd.ready();
    assert.equal(await flapd.stop(), 0, flapd.words);
  });
});

describe('the daemon without an etcd', () => {
  it('starts, says so, is not ready, takes what comes, and connects when etcd comes', async () => {
    const port = await freePort();
    const flapd = await Flapd.start({ etcd: `http://127.0.0.1:${port}`, args: fast });
    await flapd.says('etcd does not take what is written');
    await flapd.says('the feed socket is open');
    const health = await flapd.get('/readyz');
    assert.equal(health.ready, false);
    assert.match(health.reasons.join(), /etcd/);
    const feeder = await Feeder.connect(flapd.feedSocket);
    for (const status of [up, down, up]) feeder.send(vm('early'), status);
    await feeder.acknowledged();
    const etcd = await startEtcd({ port });
    const history = new History(etcd.endpoint);
    assert.deepEqual(await history.reaches(keyOf('early'), 3, 30_000), ['up', 'down', 'up']);
    await flapd.ready();
    assert.equal(await flapd.stop(), 0, flapd.words);
    await history.close();
    await etcd.close();
  });

  it('ends with 75 where something is left when it is told to stop', async () => {
    const flapd = await Flapd.start({
      etcd: `http://127.0.0.1:${await freePort()}`,
      args: [...fast, '--set=shutdown.drain=200ms'],
    });
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    feeder.send(vm('left'), up);
    await feeder.acknowledged();
    assert.equal(await flapd.stop(), 75, flapd.words);
  });
});
