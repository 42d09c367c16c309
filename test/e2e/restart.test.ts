import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { type Etcd, etcdBinary, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, History, keyOf, vm } from '../support/host.js';
import { NetNamespace } from '../support/netns.js';
import { until } from '../support/waiting.js';

const { up, down } = Status;
const alternating = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => (i % 2 === 0 ? 'up' : 'down'));

describe('what was accepted before a restart', () => {
  let etcd: Etcd;
  let history: History;
  let folder: string;
  /** How many transitions each endpoint has had so far. */
  let sent: number[];

  const start = (...args: string[]): Promise<Flapd> =>
    Flapd.start({
      etcd: etcd.endpoint,
      folder,
      args: [
        '--endpoints-from=feed',
        `--journal=${join(folder, 'journal')}`,
        '--set=limits.endpointDelay=0',
        '--set=limits.txnsPerSecond=0',
        '--set=reader.confirm=false',
        ...args,
      ],
    });
  const flap = async (flapd: Flapd, endpoints: number, times: number): Promise<void> => {
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    for (let i = 0; i < times; i++) {
      for (let endpoint = 0; endpoint < endpoints; endpoint++) {
        const n = sent[endpoint] ?? 0;
        feeder.send(vm(endpoint), n % 2 === 0 ? up : down);
        sent[endpoint] = n + 1;
      }
    }
    await feeder.acknowledged();
    await feeder.end();
  };
  const expectAll = async (): Promise<void> => {
    for (let endpoint = 0; endpoint < sent.length; endpoint++) {
      assert.deepEqual(
        await history.reaches(keyOf(endpoint), sent[endpoint]!, 60_000),
        alternating(sent[endpoint]!),
      );
    }
  };

  beforeEach(async () => {
    etcd = await startEtcd();
    history = new History(etcd.endpoint);
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    sent = [];
  });
  afterEach(async () => {
    await history.close();
    await etcd.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('is written after a kill -9 in the middle, once', async () => {
    for (let life = 0; life < 5; life++) {
      const flapd = await start();
      await flap(flapd, 20, 30);
      await flapd.kill9();
    }
    const last = await start();
    await expectAll();
    assert.equal(await last.stop(), 0, last.words);
    await expectAll();
  });

  it('is written after a kill -9 while etcd was away', async () => {
    const first = await start();
    await flap(first, 10, 10);
    etcd.kill('SIGSTOP');
    await flap(first, 10, 10);
    await first.kill9();
    etcd.kill('SIGCONT');
    const second = await start();
    await flap(second, 10, 10);
    await expectAll();
    assert.equal(await second.stop(), 0, second.words);
  });

  it('is written by the next start where SIGTERM left something: exit code 75', async () => {
    const first = await start('--set=shutdown.drain=300ms');
    await flap(first, 10, 2);
    etcd.kill('SIGSTOP');
    await flap(first, 10, 5);
    assert.equal(await first.stop(), 75, first.words);
    etcd.kill('SIGCONT');
    const second = await start();
    await second.says('left in the journal');
    await expectAll();
    assert.equal(await second.stop(), 0, second.words);
  });

  it('is written once whatever the number of lanes was before', async () => {
    for (const lanes of [4, 2, 7, 1]) {
      const flapd = await start(`--lanes=${lanes}`);
      await flap(flapd, 20, 5);
      await expectAll();
      assert.equal(await flapd.stop(), 0, flapd.words);
      assert.equal(
        JSON.parse(etcd.ctl('get', '--print-value-only', '/calico/flapd/v1/no-region/host/testhost/claim'))
          .lanes,
        lanes,
      );
    }
    // With something left, the old number serves until nothing is.
    const one = await start('--lanes=1', '--set=shutdown.drain=200ms');
    await flap(one, 20, 1);
    await expectAll();
    etcd.kill('SIGSTOP');
    await flap(one, 20, 5);
    await one.kill9();
    etcd.kill('SIGCONT');
    const three = await start('--lanes=3');
    await expectAll();
    assert.equal(
      JSON.parse(etcd.ctl('get', '--print-value-only', '/calico/flapd/v1/no-region/host/testhost/claim'))
        .lanes,
      1,
    );
    assert.equal(await three.stop(), 0, three.words);
    const again = await start('--lanes=3');
    await flap(again, 20, 5);
    await expectAll();
    assert.equal(
      JSON.parse(etcd.ctl('get', '--print-value-only', '/calico/flapd/v1/no-region/host/testhost/claim'))
        .lanes,
      3,
    );
    assert.equal(await again.stop(), 0, again.words);
  });

  it('goes on where the journal is lost: nothing is written twice, what comes is written', async () => {
    const first = await start();
    await flap(first, 10, 6);
    await expectAll();
    assert.equal(await first.stop(), 0);
    rmSync(join(folder, 'journal'), { recursive: true });
    const second = await start();
    await flap(second, 10, 6);
    await expectAll();
    assert.equal(await second.stop(), 0, second.words);
    await expectAll();
  });

  it('goes on where an old copy of the journal was put back', async () => {
    const first = await start();
    await flap(first, 10, 4);
    await expectAll();
    assert.equal(await first.stop(), 0);
    cpSync(join(folder, 'journal'), join(folder, 'old'), { recursive: true });
    const second = await start();
    await flap(second, 10, 4);
    await expectAll();
    assert.equal(await second.stop(), 0);
    rmSync(join(folder, 'journal'), { recursive: true });
    cpSync(join(folder, 'old'), join(folder, 'journal'), { recursive: true });
    const third = await start();
    await third.says('ahead of the journal');
    await flap(third, 10, 4);
    await expectAll();
    assert.equal(await third.stop(), 0, third.words);
  });
});

describe('what interfaces did while flapd was not running', () => {
  it('is reported from their carrier counters at the next start', async () => {
    const namespace = await NetNamespace.create();
    const folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    const start = (): Promise<Flapd> =>
      Flapd.start({
        etcd: null,
        namespace,
        folder,
        env: { FLAPD_ETCD: etcdBinary() },
        args: [
          `--etcd-embedded=${join(folder, 'etcd')}`,
          '--endpoints-from=interfaces',
          `--journal=${join(folder, 'journal')}`,
          '--set=limits.endpointDelay=0',
          '--set=reader.confirm=false',
        ],
      });
    namespace.ip('link add veth1 type veth peer name peer1');
    namespace.ip('link set veth1 up');
    namespace.ip('link set peer1 up');
    const first = await start();
    const committed = (flapd: Flapd): Promise<number> => flapd.metric('flapd_transitions_committed_total');
    await until('the interface to be reported', () => committed(first).catch(() => 0));
    assert.equal(await first.stop(), 0, first.words);
    for (let i = 0; i < 3; i++) {
      namespace.ip('link set peer1 down');
      namespace.ip('link set peer1 up');
    }
    const second = await start();
    await until('six transitions', async () => (await committed(second).catch(() => 0)) >= 6);
    assert.equal(await committed(second), 6);
    // The peer's counters are read as well.
    assert.equal(await second.metric('flapd_carrier_flaps_recovered_total'), 12);
    assert.equal(await second.stop(), 0, second.words);
    await namespace.close();
    rmSync(folder, { recursive: true, force: true });
  });
});
