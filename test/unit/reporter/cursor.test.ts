import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { CursorError, covers, decodeCursor, encodeCursor, highestSeq } from '../../../src/reporter/cursor.js';

const e = (n: number): EndpointIndex => n as EndpointIndex;

describe('cursor', () => {
  it('reads back what was written', () => {
    const seq = fc.integer({ min: 0, max: 2 ** 50 });
    const entries = fc.uniqueArray(fc.tuple(fc.nat(2 ** 31 - 1), fc.integer({ min: 1, max: 2 ** 40 })), {
      selector: ([endpoint]) => endpoint,
      maxLength: 50,
    });
    fc.assert(
      fc.property(seq, seq, entries, (number, ack, ahead) => {
        const bytes = encodeCursor(
          number,
          ack,
          ahead.map(([endpoint]) => endpoint),
          ahead.map(([, above]) => ack + above),
        );
        const cursor = decodeCursor(bytes);
        assert.equal(cursor.number, number);
        assert.equal(cursor.ack, ack);
        assert.deepEqual(
          [...cursor.sack],
          ahead.map(([endpoint, above]) => [endpoint, ack + above]),
        );
        assert.equal(highestSeq(cursor), Math.max(ack, ...ahead.map(([, above]) => ack + above)));
      }),
    );
  });

  it('covers what is up to the ack, and what its endpoint has beyond it', () => {
    const cursor = decodeCursor(encodeCursor(7, 100, [3], [120]));
    assert.deepEqual(
      (
        [
          [3, 100],
          [3, 120],
          [3, 121],
          [4, 100],
          [4, 101],
        ] as const
      ).map(([endpoint, seq]) => covers(cursor, e(endpoint), seq)),
      [true, true, false, true, false],
    );
  });

  it('takes a thousand endpoints ahead in a few kilobytes', () => {
    const endpoints = Array.from({ length: 1024 }, (_, i) => i);
    const bytes = encodeCursor(
      1e9,
      1e12,
      endpoints,
      endpoints.map((i) => 1e12 + 1 + 20 * i),
    );
    assert.ok(bytes.length < 5000, `${bytes.length} bytes`);
  });

  it('refuses what is no cursor', () => {
    const good = encodeCursor(7, 100, [3], [120]);
    for (const bad of [
      new Uint8Array(),
      new Uint8Array([9, 1, 1, 0]),
      good.subarray(0, good.length - 1),
      new Uint8Array([...good, 0]),
    ]) {
      assert.throws(() => decodeCursor(bad), CursorError);
    }
  });
});
