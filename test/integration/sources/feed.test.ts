import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { EndpointId, EndpointIndex } from '../../../src/endpoints/id.js';
import { statusKey } from '../../../src/endpoints/key.js';
import { Status } from '../../../src/endpoints/status.js';
import { FeedClient } from '../../../src/sources/felix/client.js';
import { type FeedOptions, FeedSource } from '../../../src/sources/felix/feed.js';
import { frame } from '../../../src/sources/felix/frames.js';
import { encodeInSync, encodeSequenceNumber, encodeStatus } from '../../../src/sources/felix/messages.js';
import { until } from '../../support/waiting.js';

const vm = (n: number): EndpointId => ({
  kind: 'workload',
  orchestrator: 'o',
  workload: `vm${n}`,
  endpoint: 'e',
});
const up = (n: number, sequenceNumber = 0): Buffer =>
  frame(encodeStatus(vm(n), Status.up), encodeSequenceNumber(sequenceNumber));

describe('the feed socket', () => {
  let folder: string;
  let feed: FeedSource;
  let observed: number[];
  let results: Record<string, number>;
  let warnings: string[];
  let inSync: number;
  const sockets: Socket[] = [];

  const open = async (options: Partial<FeedOptions> = {}): Promise<void> => {
    const ids: string[] = [];
    feed = new FeedSource({
      socketPath: join(folder, 'run', 'feed.sock'),
      group: null,
      frameBytesMax: 64 * 1024,
      connectionsMax: 16,
      frameTimeoutMs: 10_000,
      nowUs: () => 1,
      sink: {
        intern: (id) => {
          const key = statusKey(id, { host: 'h', region: null });
          if (!ids.includes(key)) ids.push(key);
          return ids.indexOf(key) as EndpointIndex;
        },
        observe: (endpoint) => observed.push(endpoint),
      },
      onFrame: (result) => {
        results[result] = (results[result] ?? 0) + 1;
      },
      onInSync: () => {
        inSync++;
      },
      log: {
        info: () => undefined,
        warn: ({ why }: { why?: string }, message) => warnings.push(`${message}: ${why}`),
      },
      ...options,
    });
    await feed.start();
  };
  const path = (): string => join(folder, 'run', 'feed.sock');
  const raw = async (): Promise<Socket> => {
    const socket = createConnection(path());
    sockets.push(socket);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return socket;
  };
  const closed = (socket: Socket): Promise<unknown> =>
    until('the connection to be closed', () => socket.readableEnded || socket.destroyed);

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'flapd-feed-'));
    observed = [];
    results = {};
    warnings = [];
    inSync = 0;
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await feed.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('is for root and its group only, and gone when it stops', async () => {
    await open();
    assert.equal(statSync(path()).mode & 0o777, 0o660);
    assert.equal(statSync(join(folder, 'run')).mode & 0o777, 0o750);
    await feed.stop();
    assert.equal(existsSync(path()), false);
  });

  it('takes the place of a socket that a dead process left, but not of a living one, nor of another file', async () => {
    await open();
    const other = new FeedSource({ ...({} as FeedOptions), socketPath: path() });
    await assert.rejects(other.start(), { code: 'FEED_SOCKET', message: /another process listens/ });
    await feed.stop();
    writeFileSync(path(), 'precious');
    await assert.rejects(other.start(), { code: 'FEED_SOCKET', message: /is no socket/ });
    rmSync(path());
    await open();
  });

  it('acknowledges what is durable, and only that', async () => {
    await open();
    const acks: number[] = [];
    const client = await FeedClient.connect(path(), { onAck: (sequenceNumber) => acks.push(sequenceNumber) });
    for (let i = 1; i <= 100; i++) client.send(up(i, i));
    await until('all frames', () => observed.length === 100);
    assert.deepEqual(acks, []);
    feed.durable(100);
    await until('the acknowledgement', () => acks.at(-1) === 100);
    client.send(up(5, 101));
    client.send(up(6, 102));
    await until('two more', () => observed.length === 102);
    feed.durable(102);
    await until('their acknowledgement', () => acks.at(-1) === 102);
    client.destroy();
  });

  it('says nothing to a feeder that does not number its frames', async () => {
    await open();
    const socket = await raw();
    let heard = 0;
    socket.on('data', (data) => {
      heard += data.length;
    });
    socket.write(up(1));
    await until('the frame', () => observed.length === 1);
    feed.durable(1);
    socket.end();
    await closed(socket);
    assert.equal(heard, 0);
  });

  it('keeps only the latest acknowledgement for a feeder that does not read them', async () => {
    await open();
    const socket = await raw();
    socket.pause();
    for (let round = 1; round <= 2000; round++) {
      socket.write(up(1, round));
      if (round % 100 === 0) {
        await until('the frames so far', () => observed.length === round);
        feed.durable(round);
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
    await open();
    const good = await raw();
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
      const socket = await raw();
      socket.write(bytes);
      await closed(socket);
      assert.equal(
        results[result],
        cases.filter(([, , other]) => other === result).findIndex(([name]) => name === what) + 1,
        what,
      );
      assert.match(warnings.at(-1)!, why);
    }
    const cut = await raw();
    cut.end(up(1).subarray(0, 12));
    await until('the cut frame to be counted', () => results.cutShort === 1);
    good.write(up(7));
    await until('the good one to be heard', () => observed.length === 1);
    assert.equal(good.destroyed, false);
  });

  it('does not wait for ever for the end of a frame (slowloris)', async () => {
    await open({ frameTimeoutMs: 100 });
    const socket = await raw();
    socket.write(up(1).subarray(0, 5));
    await closed(socket);
    assert.equal(results.timeout, 1);
    // One that is merely silent between frames may stay.
    const silent = await raw();
    silent.write(up(1));
    await until('its frame', () => observed.length === 1);
    const another = await raw();
    another.write(up(1).subarray(0, 5));
    await closed(another);
    assert.equal(silent.destroyed, false);
  });

  it('has room for a new connection by closing the one that was silent the longest', async () => {
    await open({ connectionsMax: 3 });
    const first = await raw();
    const others = [await raw(), await raw()];
    await until('three connections', () => feed.connections === 3);
    for (const socket of others) socket.write(up(1));
    await until('two frames', () => observed.length === 2);
    const newest = await raw();
    await closed(first);
    newest.write(up(2));
    await until('the newest to be heard', () => observed.length === 3);
    assert.equal(
      others.some((socket) => socket.destroyed),
      false,
    );
  });

  it('survives a thousand connections that say nothing', async () => {
    await open();
    for (let i = 0; i < 1000; i++) {
      const socket = createConnection(path());
      sockets.push(socket);
      socket.on('error', () => undefined);
    }
    await until(
      'most of them to be closed',
      () => sockets.filter((socket) => socket.destroyed || socket.readableEnded).length >= 980,
      { deadlineMs: 20_000 },
    );
    const socket = await raw();
    socket.write(up(1));
    await until('a frame to be heard', () => observed.length === 1);
    assert.ok(feed.connections <= 16, `${feed.connections} connections`);
  });

  it('lets feeders wait while it is paused, without a loss', async () => {
    await open();
    const client = await FeedClient.connect(path());
    client.send(up(1));
    await until('one frame', () => observed.length === 1);
    feed.pause();
    let sent = 1;
    while (client.send(up(sent % 100))) {
      sent++;
      if (sent % 1000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    sent++;
    assert.ok(observed.length < sent, 'it has read on');
    feed.resume();
    await client.drained();
    await until('all frames', () => observed.length === sent);
    assert.equal(results.ok, sent);
    client.destroy();
  });

  it('knows that a dataplane is in sync when it says so', async () => {
    await open();
    assert.equal(feed.inSync, false);
    const socket = await raw();
    socket.write(frame(encodeInSync()));
    await until('it to be in sync', () => feed.inSync);
    assert.equal(inSync, 1);
  });
});
