import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, it, type TestContext } from 'node:test';
import { Status, statusName } from '../../../src/endpoints/status.js';
import { frame } from '../../../src/sources/felix/frames.js';
import { encodeSequenceNumber, encodeStatus } from '../../../src/sources/felix/messages.js';
import { bytesField, varintField } from '../../../src/wire/protobuf.js';
import { until } from '../../support/waiting.js';
import { DriverFeedFixture, felix as messages, vm } from './driver-feed-fixture.js';
import { Felix, fakeDriver } from './felix.js';

const { up, down } = Status;

/** Numbered in front, as Felix and its drivers do. */
const says = (n: number, status: Status): Buffer =>
  frame(encodeSequenceNumber(99), encodeStatus(vm(n), status));
const tells = (message: Uint8Array): Buffer => frame(varintField(15, 99), message);

describe('what flapd hears of flapd felix-driver', { timeout: 60_000 }, () => {
  let flapd: DriverFeedFixture;
  let felix: Felix;
  const start = (test: TestContext): Felix => {
    const one = new Felix({ driver: fakeDriver('relay'), flapdSocket: flapd.path });
    test.after(() => one.close());
    one.dataplaneHears.resume();
    one.fromDriver.resume();
    felix = one;
    return one;
  };
  beforeEach(() => {
    flapd = new DriverFeedFixture();
  });
  afterEach(() => flapd.close());

  const heard = async (...what: string[]): Promise<void> => {
    await until(`${what.length} things; heard: ${flapd.heard}`, () => flapd.heard.length >= what.length);
    assert.deepEqual(flapd.heard.splice(0), what);
  };
  /** Statuses of one endpoint, where saying one again is no transition. */
  const accepted = (n: number): string[] =>
    flapd.heard
      .filter((one) => /^vm\d+ (up|down|removed)$/.test(one) && one.startsWith(`vm${n} `))
      .map((one) => one.split(' ')[1]!)
      .filter((status, i, all) => status !== all[i - 1]);

  it('is what Felix defines and what the dataplane says, in order', async (test) => {
    await flapd.feed.start();
    start(test);
    await until('felix-driver', () => flapd.feed.connected);
    felix.toDriver.write(Buffer.concat([tells(messages.defines(1)), tells(messages.inSync)]));
    await heard('vm1 is tap1', 'in sync');
    const before = Date.now() * 1000;
    for (const status of [up, down, Status.error, up, Status.removed])
      felix.dataplaneSays.write(says(1, status));
    await heard('vm1 up', 'vm1 down', 'vm1 up', 'vm1 removed');
    assert.ok(
      flapd.times.at(-1)! >= before && flapd.times.at(-1)! <= Date.now() * 1000,
      'the time it was seen at',
    );
    felix.toDriver.write(tells(messages.removes(1)));
    await heard('vm1 is no more');
    const uptime = Buffer.from([(2 << 3) | 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
    felix.dataplaneSays.write(frame(bytesField(3, uptime)));
    await heard('alive for 1.5 s');
  });

  it('is all that has passed, where flapd comes later', async (test) => {
    start(test);
    felix.toDriver.write(
      Buffer.concat([tells(messages.defines(1)), tells(messages.defines(2)), tells(messages.inSync)]),
    );
    const flaps = Array.from({ length: 50 }, (_, i) => says(1, i % 2 === 0 ? up : down));
    felix.dataplaneSays.write(Buffer.concat(flaps));
    await until('all of it to have passed', () => felix.fromDriver.bytesRead === Buffer.concat(flaps).length);
    assert.match(felix.stderr, /flapd does not listen/);
    await flapd.feed.start();
    await until('the last of it', () => accepted(1).length === 50);
    assert.deepEqual(
      accepted(1),
      flaps.map((_, i) => (i % 2 === 0 ? 'up' : 'down')),
    );
    assert.deepEqual(flapd.heard.slice(0, 3), ['vm1 is tap1', 'vm2 is tap2', 'in sync']);
    assert.equal(felix.stderr.match(/flapd does not listen/g)?.length, 1);
  });

  it('is each transition once and in order, however often flapd goes and comes', async (test) => {
    await flapd.feed.start();
    start(test);
    felix.toDriver.write(Buffer.concat([1, 2, 3].map((n) => tells(messages.defines(n)))));
    felix.toDriver.write(tells(messages.inSync));
    const rounds = 8;
    const each = 50;
    let said = 0;
    for (let round = 0; round < rounds; round++) {
      // In every second round flapd takes what it is told, and goes before it has said so.
      flapd.durable = round % 2 === 0;
      for (let i = 0; i < each; i++, said++)
        for (const n of [1, 2, 3]) felix.dataplaneSays.write(says(n, said % 2 === 0 ? up : down));
      const before = flapd.heard.length;
      await until('some of it', () => flapd.heard.length > before);
      await flapd.restart();
    }
    flapd.durable = true;
    felix.dataplaneSays.write(says(1, Status.removed));
    await until('all of it', () => [1, 2, 3].every((n) => accepted(n).length >= said));
    await until('the removal', () => accepted(1).at(-1) === 'removed');
    const expected = Array.from({ length: said }, (_, i) => statusName(i % 2 === 0 ? up : down));
    assert.deepEqual(accepted(1), [...expected, 'removed']);
    assert.deepEqual(accepted(2), expected);
    assert.deepEqual(accepted(3), expected);
    assert.match(felix.stderr, /"awayMs":[1-9]/);
  });

  it('is, after it was away, which endpoints there are no more', async (test) => {
    await flapd.feed.start();
    start(test);
    felix.toDriver.write(Buffer.concat([1, 2].map((n) => tells(messages.defines(n)))));
    felix.toDriver.write(tells(messages.inSync));
    await heard('vm1 is tap1', 'vm2 is tap2', 'in sync');
    await flapd.feed.stop();
    await until('felix-driver to notice', () => felix.stderr.includes('flapd does not listen'));
    felix.toDriver.write(tells(messages.removes(1)));
    felix.toDriver.write(tells(messages.defines(3)));
    await flapd.restart();
    // What was told before, then what it has missed.
    await until('the third', () => flapd.heard.includes('vm3 is tap3'));
    assert.deepEqual(flapd.heard.toSorted(), [
      'in sync',
      'vm1 is no more',
      'vm1 is tap1',
      'vm2 is tap2',
      'vm3 is tap3',
    ]);
    assert.ok(flapd.heard.indexOf('vm1 is tap1') < flapd.heard.indexOf('vm1 is no more'));
  });

  it('is no reason for Felix to wait where flapd listens and does not read', async (test) => {
    const connections: Socket[] = [];
    const frozen = createServer((socket) => connections.push(socket.pause()));
    await new Promise<void>((resolve) => frozen.listen(flapd.path, resolve));
    test.after(() => {
      for (const socket of connections) socket.destroy();
      frozen.close();
    });
    start(test);
    await until('it to be connected', () => connections.length === 1);
    const frames = Buffer.concat(Array.from({ length: 5000 }, (_, n) => says(n, up)));
    for (let i = 0; i < 10; i++) felix.dataplaneSays.write(frames);
    await until('all to have passed', () => felix.fromDriver.bytesRead === 10 * frames.length);
    felix.dataplaneSays.end();
    felix.toDriver.end();
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
    assert.match(felix.stderr, /"untold":[1-9]/);
  });

  it('is the last word too, where the driver ends right after it', async (test) => {
    await flapd.feed.start();
    start(test);
    await until('felix-driver', () => flapd.feed.connected);
    felix.dataplaneSays.end(Buffer.concat([says(1, up), says(1, down), says(1, up)]));
    felix.toDriver.end();
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
    assert.deepEqual(flapd.heard, ['vm1 up', 'vm1 down', 'vm1 up']);
    assert.match(felix.stderr, /"untold":0/);
  });
});
