import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { frame } from '../../src/sources/felix/frames.js';
import { encodeToDataplane } from '../../src/sources/felix/to-dataplane.js';
import { Felix, fakeDriver } from '../integration/felix-driver/felix.js';
import { startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { History, keyOf, statusFrame, vm } from '../support/host.js';
import { until } from '../support/waiting.js';

const { up, down, removed } = Status;

const defines = (n: number): Buffer =>
  frame(
    encodeToDataplane({
      kind: 'defined',
      definition: { kind: 'workload', id: vm(n), interfaceName: `no-such-tap${n}`, active: true },
      networks: ['10.0.0.1/32'],
    })!,
  );
const removes = (n: number): Buffer => frame(encodeToDataplane({ kind: 'removed', id: vm(n) })!);
const inSync = frame(encodeToDataplane({ kind: 'inSync' })!);

describe('flapd beside Felix and a dataplane driver of its own', { timeout: 120_000 }, () => {
  it('writes each transition that the driver tells Felix once, also those of its own absences', async (test) => {
    const etcd = await startEtcd();
    test.after(() => etcd.close());
    const history = new History(etcd.endpoint);
    test.after(() => history.close());
    const folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    test.after(() => rmSync(folder, { recursive: true, force: true }));
    const start = async (): Promise<Flapd> => {
      const flapd = await Flapd.start({
        etcd: etcd.endpoint,
        folder,
        args: [
          '--endpoints-from=felix',
          `--journal=${join(folder, 'journal')}`,
          '--set=limits.endpointDelay=0',
          '--set=limits.txnsPerSecond=0',
          '--set=reader.confirm=false',
        ],
      });
      test.after(() => flapd.kill('SIGKILL'));
      return flapd;
    };

    // Felix is there first: flapd has missed what it told its driver at the start.
    const felix = new Felix({ driver: fakeDriver('relay'), flapdSocket: join(folder, 'driver.sock') });
    test.after(() => felix.close());
    felix.dataplaneHears.resume();
    felix.fromDriver.resume();
    const endpoints = [0, 1, 2, 3, 4];
    felix.toDriver.write(Buffer.concat([...endpoints.map(defines), inSync]));
    await until('them to have passed', () => /flapd does not listen/.test(felix.stderr));

    let flapd = await start();
    // Their interfaces are not there.
    for (const n of endpoints) assert.deepEqual(await history.reaches(keyOf(n), 1), ['down']);

    const lives = 4;
    const flaps = 40;
    for (let life = 0; life < lives; life++) {
      const before = history.of(keyOf(0)).length;
      for (let i = 0; i < flaps; i++)
        for (const n of endpoints) felix.dataplaneSays.write(statusFrame(vm(n), i % 2 === 0 ? up : down, 1));
      await until('some of it to be written', () => history.of(keyOf(0)).length > before);
      await flapd.kill9();
      // While it is away, too.
      for (const n of endpoints) {
        felix.dataplaneSays.write(statusFrame(vm(n), up, 1));
        felix.dataplaneSays.write(statusFrame(vm(n), down, 1));
      }
      flapd = await start();
    }
    const expected = [
      'down',
      ...Array.from({ length: lives * (flaps / 2 + 1) }, () => ['up', 'down']).flat(),
    ];
    for (const n of endpoints)
      assert.deepEqual(await history.reaches(keyOf(n), expected.length, 60_000), expected);

    // One goes as Felix has it go: its dataplane says so, then its definition is gone. One goes while flapd is away.
    felix.dataplaneSays.write(statusFrame(vm(0), removed, 1));
    felix.toDriver.write(removes(0));
    assert.deepEqual((await history.reaches(keyOf(0), expected.length + 1)).at(-1), 'removed');
    await flapd.kill9();
    felix.toDriver.write(removes(1));
    flapd = await start();
    assert.deepEqual((await history.reaches(keyOf(1), expected.length + 1)).at(-1), 'removed');
    assert.equal(await flapd.stop(), 0, flapd.words);
    for (const n of endpoints)
      assert.deepEqual(history.of(keyOf(n)), n < 2 ? [...expected, 'removed'] : expected);
    assert.deepEqual(new Set(history.keys), new Set(endpoints.map(keyOf)));

    felix.dataplaneSays.end();
    felix.toDriver.end();
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
  });

  it('takes no endpoint away because Felix was started anew', async (test) => {
    const etcd = await startEtcd();
    test.after(() => etcd.close());
    const history = new History(etcd.endpoint);
    test.after(() => history.close());
    const flapd = await Flapd.start({
      etcd: etcd.endpoint,
      args: [
        '--endpoints-from=felix',
        '--journal=memory',
        '--set=limits.endpointDelay=0',
        '--set=reader.confirm=false',
      ],
    });
    test.after(() => flapd.kill('SIGKILL'));
    const run = (): Felix => {
      const felix = new Felix({
        driver: fakeDriver('relay'),
        flapdSocket: join(flapd.folder, 'driver.sock'),
      });
      test.after(() => felix.close());
      felix.dataplaneHears.resume();
      felix.fromDriver.resume();
      return felix;
    };
    const first = run();
    first.toDriver.write(Buffer.concat([defines(1), defines(2), inSync]));
    first.dataplaneSays.write(Buffer.concat([1, 2].map((n) => statusFrame(vm(n), up, 1))));
    for (const n of [1, 2]) await until(`vm${n} to be up`, () => history.of(keyOf(n)).at(-1) === 'up');
    const before = [1, 2].map((n) => history.of(keyOf(n)));
    await first.close();

    const second = run();
    await until('the new one', () => second.stderr.includes('flapd listens'));
    second.toDriver.write(defines(1));
    second.dataplaneSays.write(statusFrame(vm(1), down, 1));
    await history.reaches(keyOf(1), before[0]!.length + 1);
    assert.deepEqual(history.of(keyOf(2)), before[1]);
    // Now it has told all, and one of them was not among it.
    second.toDriver.write(inSync);
    await history.reaches(keyOf(2), before[1]!.length + 1);
    assert.deepEqual(history.of(keyOf(1)), [...before[0]!, 'down']);
    assert.deepEqual(history.of(keyOf(2)), [...before[1]!, 'removed']);
    assert.equal(await flapd.stop(), 0, flapd.words);
  });
});
