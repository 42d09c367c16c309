import assert from 'node:assert/strict';
import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Status } from '../../../src/endpoints/status.js';
import { FeedClient } from '../../../src/sources/felix/client.js';
import { type FeedOptions, FeedSource } from '../../../src/sources/felix/feed.js';
import { frame } from '../../../src/sources/felix/frames.js';
import { encodeInSync, encodeStatus } from '../../../src/sources/felix/messages.js';
import { until } from '../../support/waiting.js';
import { closed, FeedFixture, up } from './feed-fixture.js';

describe('the feed socket', () => {
  let on: FeedFixture;
  beforeEach(() => {
    on = new FeedFixture();
  });
  afterEach(() => on.close());

  it('is for root and its group only, and gone when it stops', async () => {
    await on.open();
    assert.equal(statSync(on.path).mode & 0o777, 0o660);
    assert.equal(statSync(join(on.folder, 'run')).mode & 0o777, 0o750);
    await on.feed.stop();
    assert.equal(existsSync(on.path), false);
  });

  it('takes the place of a socket that a dead process left, but not of a living one, nor of another file', async () => {
    await on.open();
    const other = new FeedSource({
      ...({} as FeedOptions),
      socketPath: on.path,
      group: null,
      endpointsMax: 1,
    });
    await assert.rejects(other.start(), { code: 'FEED_SOCKET', message: /another process listens/ });
    await on.feed.stop();
    writeFileSync(on.path, 'precious');
    await assert.rejects(other.start(), { code: 'FEED_SOCKET', message: /is no socket/ });
    rmSync(on.path);
    await on.open();
  });

  it('acknowledges what is durable, and only that', async () => {
    await on.open();
    const acks: number[] = [];
    const client = await FeedClient.connect(on.path, {
      onAck: (sequenceNumber) => acks.push(sequenceNumber),
    });
    for (let i = 1; i <= 100; i++) client.send(up(i, i));
    await until('all frames', () => on.observed.length === 100);
    assert.deepEqual(acks, []);
    on.feed.durable(100);
    await until('the acknowledgement', () => acks.at(-1) === 100);
    client.send(up(5, 101));
    client.send(up(6, 102));
    await until('two more', () => on.observed.length === 102);
    on.feed.durable(102);
    await until('their acknowledgement', () => acks.at(-1) === 102);
    client.destroy();
  });

  it('says nothing to a feeder that does not number its frames', async () => {
    await on.open();
    const socket = await on.raw();
    let heard = 0;
    socket.on('data', (data) => {
      heard += data.length;
    });
    socket.write(up(1));
    await until('the frame', () => on.observed.length === 1);
    on.feed.durable(1);
    socket.end();
    await closed(socket);
    assert.equal(heard, 0);
  });

  it('keeps only the latest acknowledgement for a feeder that does not read them', async () => {
    await on.open();
    const socket = await on.raw();
    socket.pause();
    for (let round = 1; round <= 2000; round++) {
      socket.write(up(1, round));
      if (round % 100 === 0) {
        await until('the frames so far', () => on.observed.length === round);
        on.feed.durable(round);
      }
    }
    let last = Buffer.alloc(0);
    socket.on('data', (data: Buffer) => {
      last = Buffer.concat([last, data]).subarray(-64);
    });
    socket.resume();
    await until('the latest', () => last.includes(frame(Buffer.from([15 << 3, 0xd0, 0x0f]))));
  });

  it('closes only the connection that sends nonsense, and says why', async () => {
    await on.open();
    const good = await on.raw();
    const cases: [string, Buffer, string, RegExp][] = [
      ['garbage', frame(Buffer.alloc(20, 0xff)), 'invalid', /makes no sense/],
      ['too long', Buffer.from('0100010000000000', 'hex'), 'tooLong', /65537 bytes/],
      [
        'an id that no key can hold',
        frame(encodeStatus({ kind: 'host', endpoint: 'a\nb' }, Status.up)),
        'invalid',
        /control character/,
      ],
    ];
    for (const [what, bytes, result, why] of cases) {
      const socket = await on.raw();
      socket.write(bytes);
      await closed(socket);
      assert.equal(
        on.results[result],
        cases.filter(([, , other]) => other === result).findIndex(([name]) => name === what) + 1,
        what,
      );
      assert.match(on.warnings.at(-1)!, why);
    }
    const cut = await on.raw();
    cut.end(up(1).subarray(0, 12));
    await until('the cut frame to be counted', () => on.results.cutShort === 1);
    good.write(up(7));
    await until('the good one to be heard', () => on.observed.length === 1);
    assert.equal(good.destroyed, false);
  });

  it('does not wait for ever for the end of a frame (slowloris)', async () => {
    await on.open({ frameTimeoutMs: 100 });
    const socket = await on.raw();
    socket.write(up(1).subarray(0, 5));
    await closed(socket);
    assert.equal(on.results.timeout, 1);
    // One that is merely silent between frames may stay.
    const silent = await on.raw();
    silent.write(up(1));
    await until('its frame', () => on.observed.length === 1);
    const another = await on.raw();
    another.write(up(1).subarray(0, 5));
    await closed(another);
    assert.equal(silent.destroyed, false);
  });

  it('has room for a new connection by closing the one that was silent the longest', async () => {
    await on.open({ connectionsMax: 3 });
    const first = await on.raw();
    const others = [await on.raw(), await on.raw()];
    await until('three connections', () => on.feed.connections === 3);
    for (const socket of others) socket.write(up(1));
    await until('two frames', () => on.observed.length === 2);
    const newest = await on.raw();
    await closed(first);
    newest.write(up(2));
    await until('the newest to be heard', () => on.observed.length === 3);
    assert.equal(
      others.some((socket) => socket.destroyed),
      false,
    );
  });

  it('survives a thousand connections that say nothing', async () => {
    await on.open();
    for (let i = 0; i < 1000; i++) {
      const socket = createConnection(on.path);
      on.sockets.push(socket);
      socket.on('error', () => undefined);
    }
    await until(
      'most of them to be closed',
      () => on.sockets.filter((socket) => socket.destroyed || socket.readableEnded).length >= 980,
      { deadlineMs: 20_000 },
    );
    const socket = await on.raw();
    socket.write(up(1));
    await until('a frame to be heard', () => on.observed.length === 1);
    assert.ok(on.feed.connections <= 16, `${on.feed.connections} connections`);
  });

  it('lets feeders wait while it is paused, without a loss', async () => {
    await on.open();
    const client = await FeedClient.connect(on.path);
    client.send(up(1));
    await until('one frame', () => on.observed.length === 1);
    on.feed.pause();
    let sent = 1;
    while (client.send(up(sent % 100))) {
      sent++;
      if (sent % 1000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    sent++;
    assert.ok(on.observed.length < sent, 'it has read on');
    on.feed.resume();
    await client.drained();
    await until('all frames', () => on.observed.length === sent);
    assert.equal(on.results.ok, sent);
    client.destroy();
  });

  it('knows that a dataplane is in sync when it says so', async () => {
    await on.open();
    assert.equal(on.feed.inSync, false);
    const socket = await on.raw();
    socket.write(frame(encodeInSync()));
    await until('it to be in sync', () => on.feed.inSync);
    assert.equal(on.inSync, 1);
  });
});
