import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Status } from '../../../src/endpoints/status.js';
import { FeedClient } from '../../../src/sources/felix/client.js';
import { FrameSplitter, frame } from '../../../src/sources/felix/frames.js';
import { decodeAck, encodeSequenceNumber, encodeStatus } from '../../../src/sources/felix/messages.js';
import { bytesField } from '../../../src/wire/protobuf.js';
import { until } from '../../support/waiting.js';
import { closed, FeedFixture, up, vm } from './feed-fixture.js';

describe('the feed socket, to feeders of every kind', () => {
  let on: FeedFixture;
  beforeEach(() => {
    on = new FeedFixture();
  });
  afterEach(() => on.close());

  it('lets the group in that it is told', async () => {
    const group = process.getgid!();
    await on.open({ group: String(group) });
    assert.equal(statSync(on.path).gid, group);
  });

  it('is not there where its group is not', async () => {
    await assert.rejects(on.open({ group: 'no-such-group' }), {
      code: 'FEED_SOCKET',
      message: /no group no-such-group/,
    });
    assert.equal(existsSync(on.path), false);
    // A number that no group can have is found out only when the socket is there already.
    await assert.rejects(on.open({ group: '99999999999' }), { code: 'FEED_SOCKET' });
    await until('the socket to be gone', () => !existsSync(on.path));
  });

  it('leaves the socket of a process that is only too busy to accept', async (test) => {
    await on.open();
    await on.feed.stop();
    on.feed = on.source();
    const busy = createServer((socket) => on.sockets.push(socket));
    test.after(() => busy.close());
    await new Promise<void>((resolve) => busy.listen({ path: on.path, backlog: 1 }, resolve));
    // None is accepted before the loop turns: there is no room for the probe that start() sends at once.
    for (let i = 0; i < 8; i++) on.sockets.push(createConnection(on.path).on('error', () => undefined));
    await assert.rejects(on.feed.start(), { code: 'FEED_SOCKET', message: /another process listens/ });
    assert.ok(existsSync(on.path));
  });

  it('tells a feeder that has closed its writing side what was accepted, then closes', async () => {
    await on.open();
    const acks: number[] = [];
    const client = await FeedClient.connect(on.path, {
      onAck: (sequenceNumber) => acks.push(sequenceNumber),
    });
    for (let i = 1; i <= 10; i++) client.send(up(i, i));
    let ended = false;
    const end = client.end().then(() => {
      ended = true;
    });
    await until('all frames', () => on.observed.length === 10);
    for (let i = 0; i < 10; i++) await turn();
    assert.equal(ended, false);
    on.feed.durable(9); // the last one is not: their chunk waits for it
    for (let i = 0; i < 10; i++) await turn();
    assert.equal(ended, false);
    on.feed.durable(10);
    await end;
    assert.equal(acks.at(-1), 10);
    assert.deepEqual(on.warnings, []);
  });

  it('says nothing about a feeder that has said all and does not wait to hear', async () => {
    await on.open();
    const socket = await on.raw();
    socket.write(up(1, 1));
    await until('the frame', () => on.observed.length === 1);
    socket.destroy();
    await turn();
    on.feed.durable(1);
    await until('the connection to be gone', () => on.feed.connections === 0);
    assert.deepEqual(on.warnings, []);
    assert.deepEqual(on.results, { ok: 1 });
  });

  it('takes what was written before it stops, and says so', async () => {
    await on.open();
    const socket = await on.raw();
    const acks: number[] = [];
    const splitter = new FrameSplitter(1024, (bytes, start, end) =>
      acks.push(decodeAck(bytes.subarray(start, end))),
    );
    socket.on('data', (chunk: Buffer) => splitter.push(chunk));
    const frames = Buffer.concat(Array.from({ length: 3000 }, (_, i) => up(i % 50, i + 1)));
    assert.ok(frames.length > 64 * 1024, 'more than one chunk');
    await new Promise((resolve) => socket.write(frames, resolve));
    const stopped = on.feed.stop();
    await until('all frames', () => on.observed.length === 3000);
    for (let i = 0; i < 50; i++) await turn(); // nothing more comes: it waits for the journal alone
    on.feed.durable(3000);
    await stopped;
    await until('the last acknowledgement', () => acks.at(-1) === 3000);
  });

  it('does not take a feeder that never stops talking for one that never ends its frame', async () => {
    await on.open({ frameTimeoutMs: 100 });
    const socket = await on.raw();
    const one = up(1);
    const endMs = performance.now() + 500;
    socket.write(one.subarray(0, 20));
    let sent = 0;
    while (performance.now() < endMs) {
      // Ends one frame and begins the next: there is no moment without a frame begun.
      socket.write(Buffer.concat([one.subarray(20), one.subarray(0, 20)]));
      sent++;
      await until('the frame', () => on.observed.length === sent, { everyMs: 1 });
    }
    assert.equal(on.results['timeout'], undefined);
    assert.equal(socket.destroyed, false);
    await closed(socket); // now it has stopped
    assert.equal(on.results['timeout'], 1);
  });

  it('does not blame a feeder for the time that flapd itself stood still', async () => {
    await on.open({ frameTimeoutMs: 100 });
    const socket = await on.raw();
    const other = await on.raw();
    socket.write(up(1).subarray(0, 20));
    other.write(up(2));
    await until('the other one', () => on.observed.length === 1);
    socket.write(up(1).subarray(20));
    const untilMs = performance.now() + 200;
    while (performance.now() < untilMs) {} // the process stands still: its timer is late, and so is its reading
    await until('the frame', () => on.observed.length === 2);
    assert.equal(on.results['timeout'], undefined);
  });

  it('does not count the time of its own pauses, and goes on counting after', async () => {
    await on.open({ frameTimeoutMs: 100 });
    const socket = await on.raw();
    socket.write(Buffer.concat([up(1), up(2).subarray(0, 20)]));
    await until('the first frame', () => on.observed.length === 1);
    on.feed.pause();
    await new Promise((resolve) => setTimeout(resolve, 200)); // twice what it has: nothing may happen
    assert.equal(on.results['timeout'], undefined);
    on.feed.resume();
    await closed(socket);
    assert.equal(on.results['timeout'], 1);
  });

  it('hears two feeders at once, each in its order', async () => {
    const heard: string[] = [];
    await on.open({
      sink: {
        intern: (id) => (heard.push(id.endpoint) - 1) as EndpointIndex,
        observe: (endpoint) => on.observed.push(endpoint),
      },
    });
    const name = (feeder: number, i: number): string => `${feeder}-${i}`;
    const feeders = [0, 1].map(async (feeder) => {
      const client = await FeedClient.connect(on.path);
      for (let i = 0; i < 5000; i++) {
        const id = { kind: 'host', endpoint: name(feeder, i) } as const;
        if (!client.send(frame(encodeStatus(id, Status.up)))) await client.drained();
      }
      await client.end();
    });
    await Promise.all(feeders);
    await until('all frames', () => on.observed.length === 10_000);
    for (const feeder of [0, 1]) {
      const own = on.observed
        .map((endpoint) => heard[endpoint]!)
        .filter((one) => one.startsWith(`${feeder}-`));
      assert.deepEqual(
        own,
        Array.from({ length: 5000 }, (_, i) => name(feeder, i)),
      );
    }
  });

  it('gives no number to an endpoint of which nonsense is said', async () => {
    await on.open();
    const nonsense = [
      bytesField(6, bytesField(1, bytesField(2, 'o'), bytesField(3, 'w'), bytesField(4, 'e')), bytesField(2)),
      Buffer.concat([encodeStatus(vm(1), Status.up), Buffer.from([0xff])]),
      Buffer.concat([encodeStatus(vm(1), Status.up), encodeSequenceNumber(2 ** 53)]),
    ];
    for (const message of nonsense) {
      const socket = await on.raw();
      socket.write(frame(message));
      await closed(socket);
    }
    assert.equal(on.results['invalid'], nonsense.length);
    assert.equal(on.endpoints, 0);
    assert.deepEqual(on.observed, []);
  });

  it('hands a heartbeat on', async () => {
    const heard: object[] = [];
    await on.open({ onProcessStatus: (status) => heard.push(status) });
    const uptime = Buffer.from([(2 << 3) | 1, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
    const socket = await on.raw();
    socket.write(frame(bytesField(3, bytesField(1, '2026-01-02T03:04:05Z'), uptime)));
    await until('the heartbeat', () => heard.length === 1);
    assert.deepEqual(heard, [{ isoTimestamp: '2026-01-02T03:04:05Z', uptimeSeconds: 1.5 }]);
  });
});

describe('the client of the feed socket', () => {
  it('closes, with the reason, where what comes back is no acknowledgement', async () => {
    const on = new FeedFixture();
    await on.open();
    await on.feed.stop();
    const server = createServer((socket) => {
      on.sockets.push(socket);
      socket.on('error', () => undefined);
      socket.write(Buffer.alloc(16, 0xff));
    });
    await new Promise<void>((resolve) => server.listen(on.path, resolve));
    let reason: Error | null | undefined;
    const client = await FeedClient.connect(on.path, {
      onClose: (error) => {
        reason = error;
      },
    });
    await until('it to be closed', () => reason !== undefined);
    assert.match(String(reason), /a frame of \d+ bytes/);
    assert.equal(client.send(up(1)), true);
    await client.end();
    await on.close();
    await new Promise((resolve) => server.close(resolve));
  });
});
