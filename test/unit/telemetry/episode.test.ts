import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Episodes } from '../../../src/telemetry/episode.js';

test('only the first time of an episode is worth a line, and its end says how often and how long', () => {
  const episodes = new Episodes();
  assert.deepEqual(
    [0, 10, 20].map((nowMs) => episodes.happened('etcd', nowMs)),
    [true, false, false],
  );
  assert.deepEqual(episodes.over('etcd', 50), { count: 3, lastedMs: 50 });
  assert.equal(episodes.over('etcd', 60), null);
  assert.equal(episodes.happened('etcd', 70), true);
  assert.deepEqual(episodes.over('etcd', 75), { count: 1, lastedMs: 5 });
});

test('episodes of different things do not mix', () => {
  const episodes = new Episodes();
  assert.equal(episodes.happened('etcd', 0), true);
  assert.equal(episodes.happened('queue', 1), true);
  assert.deepEqual([...episodes.open], ['etcd', 'queue']);
  episodes.over('etcd', 2);
  assert.deepEqual([...episodes.open], ['queue']);
  assert.equal(episodes.happened('queue', 3), false);
});
