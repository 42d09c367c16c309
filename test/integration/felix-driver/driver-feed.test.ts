import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { createConnection } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { InvalidIdError } from '../../../src/endpoints/key.js';
import { Status } from '../../../src/endpoints/status.js';
import { encodeDriverMessage } from '../../../src/sources/felix/driver-messages.js';
import { frame } from '../../../src/sources/felix/frames.js';
import { bytesField, varintField } from '../../../src/wire/protobuf.js';
import { until } from '../../support/waiting.js';
import { DriverFeedFixture, felix, snapshot, toDataplane, told } from './driver-feed-fixture.js';

describe('the driver socket', () => {
  let on: DriverFeedFixture;
  beforeEach(async () => {
    on = new DriverFeedFixture();
    await on.feed.start();
  });
  afterEach(() => on.close());

  const heard = (...what: string[]): Promise<unknown> =>
    until(`${what}; heard: ${on.heard}`, () => on.heard.length >= what.length).then(() =>
      assert.deepEqual(on.heard.splice(0), what),
    );

  it('is for root and its group only', () => {
    assert.equal(statSync(on.path).mode & 0o777, 0o660);
  });

  it('hears definitions, removals, statuses and heartbeats in order, with the time they were seen at', async () => {
    const client = await on.connect();
    const uptime = Buffer.from([(2 << 3) | 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
    for (const one of [
      snapshot(),
      toDataplane(felix.defines(1)),
      told(1, Status.up),
      told(1, Status.error),
      told(1, Status.removed),
      toDataplane(felix.removes(1)),
      frame(...encodeDriverMessage({ kind: 'fromDataplane', content: bytesField(3, uptime) })),
    ])
      client.send(one);
    await until('all of it', () => on.heard.length === 6);
    assert.deepEqual(on.heard, [
      'vm1 is tap1',
      'vm1 up',
      'vm1 down',
      'vm1 removed',
      'vm1 is no more',
      'alive for 1.5 s',
    ]);
    assert.deepEqual(on.times, [5, 77, 77, 77, 5, 0]);
    assert.equal(on.feed.connected, true);
  });

  it('acknowledges what is durable, and only that', async () => {
    on.durable = false;
    const acks: number[] = [];
    const client = await on.connect((sequenceNumber) => acks.push(sequenceNumber));
    client.send(snapshot());
    client.send(toDataplane(felix.defines(1), 1));
    await heard('vm1 is tap1');
    for (let i = 0; i < 10; i++) await turn();
    assert.deepEqual(acks, []);
    on.feed.durable(1);
    await until('its acknowledgement', () => acks.at(-1) === 1);
  });

  it('removes what a snapshot lacks, but not before Felix has told all that there is', async () => {
    const first = await on.connect();
    first.send(snapshot(toDataplane(felix.defines(1)), toDataplane(felix.defines(2)), told(3, Status.up)));
    await heard('vm1 is tap1', 'vm2 is tap2', 'vm3 up');
    assert.equal(on.feed.inSync, false);
    first.send(toDataplane(felix.inSync));
    await heard('in sync');
    assert.equal(on.feed.inSync, true);
    first.destroy();
    await until('it to be gone', () => !on.feed.connected);
    assert.equal(on.feed.inSync, true);

    // A Felix that was just started knows of none, and tells them again.
    const second = await on.connect();
    second.send(snapshot());
    second.send(toDataplane(felix.defines(2)));
    await heard('vm2 is tap2');
    assert.equal(on.feed.inSync, false);
    second.send(toDataplane(felix.inSync));
    await heard('vm1 is no more', 'vm3 is no more', 'in sync');

    // One that was in sync all along, and connects again: its snapshot says so.
    second.destroy();
    const third = await on.connect();
    third.send(snapshot(toDataplane(felix.inSync), toDataplane(felix.defines(4))));
    await heard('vm4 is tap4', 'vm2 is no more', 'in sync');
  });

  it('knows a definition until it goes, though its dataplane says that the endpoint is removed', async () => {
    const first = await on.connect();
    first.send(snapshot(toDataplane(felix.defines(1))));
    first.send(told(1, Status.removed));
    first.send(told(2, Status.up));
    first.send(told(2, Status.removed));
    await heard('vm1 is tap1', 'vm1 removed', 'vm2 up', 'vm2 removed');
    const second = await on.connect();
    second.send(snapshot(toDataplane(felix.inSync)));
    await heard('vm1 is no more', 'in sync');
  });

  it('takes the newer of two connections, and says so', async () => {
    const older = await on.connect();
    older.send(snapshot());
    await until('the older one', () => on.feed.connected);
    // Somebody who only asks whether there is somebody takes nobody's place.
    const probe = createConnection(on.path);
    await new Promise((resolve) => probe.once('connect', resolve));
    probe.destroy();
    older.send(told(1, Status.up));
    await heard('vm1 up');
    const newer = await on.connect();
    newer.send(snapshot());
    newer.send(told(1, Status.down));
    await heard('vm1 down');
    await until('it to be said', () => on.logged.some((line) => /another felix-driver/.test(line)));
    older.send(told(1, Status.up));
    newer.send(told(2, Status.up));
    await heard('vm2 up');
  });

  it('refuses a connection that does not begin with a snapshot', async () => {
    const client = await on.connect();
    client.send(told(1, Status.up));
    await until('it to be refused', () => on.results['invalid'] === 1);
    assert.match(on.logged.at(-1)!, /has to begin with a snapshot/);
    assert.deepEqual(on.heard, []);
  });

  it('passes over what makes no sense, acknowledges it, and goes on', async () => {
    const acks: number[] = [];
    const client = await on.connect((sequenceNumber) => acks.push(sequenceNumber));
    client.send(snapshot());
    client.send(toDataplane(Buffer.alloc(5, 0xff), 1));
    client.send(frame(bytesField(99, 'of a later version'), varintField(1, 2)));
    client.send(toDataplane(felix.defines(1), 3));
    await heard('vm1 is tap1');
    await until('the acknowledgement', () => acks.at(-1) === 3);
    assert.equal(on.results['invalid'], 1);
    assert.equal(on.results['ignored'], 1);
  });

  it('waits while it is paused', async () => {
    const client = await on.connect();
    client.send(snapshot(toDataplane(felix.defines(1))));
    await heard('vm1 is tap1');
    on.feed.pause();
    client.send(told(1, Status.up));
    for (let i = 0; i < 20; i++) await turn();
    assert.deepEqual(on.heard, []);
    on.feed.resume();
    await heard('vm1 up');
  });
});

describe('the driver socket, where flapd takes no more endpoints', () => {
  it('passes over those that it cannot take', async () => {
    const on = new DriverFeedFixture({
      defined: () => {
        throw new InvalidIdError('too many');
      },
    });
    await on.feed.start();
    try {
      const acks: number[] = [];
      const client = await on.connect((sequenceNumber) => acks.push(sequenceNumber));
      client.send(snapshot());
      client.send(toDataplane(felix.defines(1), 1));
      await until('its acknowledgement', () => acks.at(-1) === 1);
      assert.match(on.logged.at(-1)!, /passed over: too many/);
      assert.equal(on.feed.connected, true);
    } finally {
      await on.close();
    }
  });
});
