import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { prefixEnd } from '../../../src/etcd/prefix.js';
import { decodeWatchResponse } from '../../../src/etcd/watch-response.js';
import { encoded, WatchResponse } from '../../support/etcd-messages.js';

describe('decoding what a watch says', () => {
  it('gives puts and deletions in their order', () => {
    const bytes = encoded(WatchResponse, {
      header: { revision: 12 },
      watch_id: 1,
      events: [
        {
          type: 'PUT',
          kv: { key: Buffer.from('/é'), mod_revision: 11, version: 2, value: Buffer.from('v') },
        },
        { type: 'DELETE', kv: { key: Buffer.from('/b'), mod_revision: 12 } },
      ],
    });
    const { events, ...rest } = decodeWatchResponse(bytes);
    assert.deepEqual(rest, {
      revision: 12,
      created: false,
      canceled: false,
      compactRevision: 0,
      cancelReason: '',
    });
    assert.deepEqual(events, [
      { key: '/é', value: Buffer.from('v'), revision: 11 },
      { key: '/b', value: null, revision: 12 },
    ]);
  });

  it('tells that the watch was opened, and that it was cancelled and why', () => {
    const opened = encoded(WatchResponse, { header: { revision: 3 }, created: true });
    assert.equal(decodeWatchResponse(opened).created, true);
    const ended = encoded(WatchResponse, { canceled: true, compact_revision: 9, cancel_reason: 'compacted' });
    const { canceled, compactRevision, cancelReason } = decodeWatchResponse(ended);
    assert.deepEqual(
      { canceled, compactRevision, cancelReason },
      { canceled: true, compactRevision: 9, cancelReason: 'compacted' },
    );
  });
});

describe('the end of a prefix', () => {
  const ends: [prefix: number[], end: number[]][] = [
    [
      [0x2f, 0x61],
      [0x2f, 0x62],
    ],
    [[0x2f, 0xff], [0x30]],
    [[0xff, 0xff], [0]],
    [[], [0]],
  ];
  for (const [prefix, end] of ends) {
    it(`of [${prefix}] is [${end}]`, () => assert.deepEqual([...prefixEnd(Uint8Array.from(prefix))], end));
  }
});
