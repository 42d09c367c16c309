import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { Etcd3 } from 'etcd3';
import { openEtcd } from '../../../src/etcd/client.js';
import { freePort } from '../../../src/etcd/embedded.js';
import { type WatchEvent, type WatchOptions, watchPrefix } from '../../../src/etcd/watch.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { type FaultyProxy, startProxy } from '../../support/proxy.js';
import { until } from '../../support/waiting.js';
import { versions } from './fixture.js';

for (const version of versions) {
  describe(`watching a prefix in etcd ${version}`, () => {
    let etcd: Etcd;
    let proxy: FaultyProxy;
    let client: Etcd3;
    let stop: AbortController;
    let events: WatchEvent[];
    let connected: number;
    let compactedAt: number | null;
    let watching: Promise<void>;

    before(async () => {
      etcd = await startEtcd({ version });
      proxy = await startProxy(etcd.endpoint);
      client = openEtcd({ endpoints: [etcd.endpoint] });
    });
    after(async () => {
      client.close();
      await proxy.close();
      await etcd.close();
    });
    beforeEach(() => {
      stop = new AbortController();
      events = [];
      connected = 0;
      compactedAt = null;
      watching = Promise.resolve();
    });
    afterEach(async () => {
      stop.abort();
      await watching;
    });

    const put = async (key: string, value: string) =>
      Number((await client.put(key).value(value)).header.revision);
    const watch = (fromRevision: number, endpoints = [proxy.endpoint], parts: Partial<WatchOptions> = {}) => {
      watching = watchPrefix({ endpoints, deadlineMs: 500 }, '/watch/', {
        fromRevision,
        onEvents: (seen) => events.push(...seen),
        onCompacted: (revision) => {
          compactedAt = revision;
        },
        onConnected: () => connected++,
        signal: stop.signal,
        ...parts,
      });
    };
    const values = () => events.map(({ value }) => value?.toString() ?? null);

    it('tells of puts and deletions below it, from the revision on that is asked for', async () => {
      await put('/watch/a', 'too early');
      const from = await put('/watch/a', 'past');
      watch(from);
      await until('the past', () => events.length === 1);
      await put('/watch', 'not below it');
      const revision = await put('/watch/b', 'now');
      await client.delete().key('/watch/a');
      await until('the deletion', () => events.length === 3);
      assert.deepEqual(values(), ['past', 'now', null]);
      assert.deepEqual(events[1], { key: '/watch/b', value: Buffer.from('now'), revision });
      assert.equal(events[2]!.revision, revision + 1);
    });

    it('begins now where no revision is asked for', async () => {
      await put('/watch/a', 'past');
      watch(0);
      await until('the connection', () => connected === 1);
      await put('/watch/a', 'now');
      await until('an event', () => events.length > 0);
      assert.deepEqual(values(), ['now']);
    });

    it('has no gap and no repeat, however often the connection is lost', async () => {
      const from = await put('/watch/n', 'begin');
      watch(from + 1);
      const cutting = setInterval(() => proxy.cut(), 50);
      try {
        for (let i = 0; i < 500; i++) await put(`/watch/${i % 7}`, String(i));
        await until('a reconnection', () => connected > 1);
      } finally {
        clearInterval(cutting);
      }
      await until('all events', () => events.length >= 500);
      assert.deepEqual(
        values(),
        Array.from({ length: 500 }, (_, i) => String(i)),
      );
    });

    it('tries again later and later, and each host at a time of its own, until it is through', async () => {
      const tried = async (random: number): Promise<number[]> => {
        const stopping = new AbortController();
        const waits: number[] = [];
        await watchPrefix({ endpoints: [`http://127.0.0.1:${await freePort()}`] }, '/watch/', {
          fromRevision: 0,
          onEvents: () => assert.fail('nobody is there'),
          onCompacted: () => assert.fail('nobody is there'),
          signal: stopping.signal,
          random: () => random,
          pause: async (ms) => {
            if (waits.push(ms) === 8) stopping.abort();
          },
        });
        return waits;
      };
      assert.deepEqual(await tried(0), [50, 100, 200, 400, 800, 1600, 2500, 2500]);
      assert.deepEqual(await tried(0.5), [75, 150, 300, 600, 1200, 2400, 3750, 3750]);
    });

    it('goes on after etcd was killed, and misses nothing', async () => {
      const from = await put('/watch/k', 'before');
      watch(from);
      await until('the first', () => events.length === 1);
      await etcd.restart();
      await until('etcd to take a put', () =>
        put('/watch/k', 'after').then(
          () => true,
          () => false,
        ),
      );
      await until('the second', () => values().at(-1) === 'after');
      assert.deepEqual([...new Set(values())], ['before', 'after']);
    });

    it('goes to the next endpoint where one is silent', async () => {
      const silent = await startProxy(etcd.endpoint);
      silent.blackhole(true);
      watch(await put('/watch/s', 'there'), [silent.endpoint, etcd.endpoint]);
      await until('the event', () => events.length === 1);
      await silent.close();
    });

    it('gives a history of 20,000 revisions', async () => {
      const first = await put('/watch/h', 'first');
      const perTxn = 100;
      for (let i = 0; i < 200; i++) {
        await client.kv.txn({
          success: Array.from({ length: perTxn }, (_, n) => ({
            request_put: { key: Buffer.from(`/watch/h${n}`), value: Buffer.from(`${i}`) },
          })),
        });
      }
      const splits: string[] = [];
      let last = 0;
      watch(first, [etcd.endpoint], {
        onEvents: (seen) => {
          if (seen[0]!.revision === last) splits.push(`revision ${last} came in two parts`);
          last = seen.at(-1)!.revision;
          events.push(...seen);
        },
      });
      await until('the whole history', () => events.length > 200 * perTxn);
      assert.equal(events.length, 200 * perTxn + 1);
      assert.deepEqual(splits, []);
      const expected = Array.from(events, (_, i) =>
        i === 0 ? first : first + 1 + Math.floor((i - 1) / perTxn),
      );
      assert.deepEqual(
        events.map(({ revision }) => revision),
        expected,
      );
    });

    it('ends and says so where the history it needs is compacted away', async () => {
      const from = await put('/watch/c', 'gone');
      const kept = await put('/watch/c', 'kept');
      await client.kv.compact({ revision: String(kept) });
      watch(from);
      await watching;
      assert.equal(compactedAt, kept);
      assert.deepEqual(events, []);
    });

    it('ends and says so where etcd is behind what was seen: it was set back', async () => {
      const now = await put('/watch/r', 'now');
      watch(now + 1000);
      await watching;
      assert.ok(compactedAt !== null && compactedAt >= now && compactedAt < now + 1000, String(compactedAt));
    });

    it('says what keeps it from watching, and goes on trying', async () => {
      const failures: string[] = [];
      watch(0, ['http://127.0.0.1:1'], { onFailure: (failure) => failures.push(failure.message) });
      await until('two failures', () => failures.length >= 2);
      assert.match(failures[0]!, /UNAVAILABLE/);
    });
  });
}
