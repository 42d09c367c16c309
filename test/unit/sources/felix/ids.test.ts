import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { EndpointIndex } from '../../../../src/endpoints/id.js';
import { IdCache } from '../../../../src/sources/felix/ids.js';

const index = (n: number): EndpointIndex => n as EndpointIndex;

describe('the cache of ids', () => {
  it('gives for an id what was said of it last, or nothing; never what was said of another', () => {
    const id = fc.uint8Array({ maxLength: 12, max: 3 }); // few values, so that many share a slot
    fc.assert(
      fc.property(fc.array(id, { maxLength: 300 }), (ids) => {
        const cache = new IdCache(16);
        const model = new Map<string, number>();
        ids.forEach((bytes, n) => {
          const key = Buffer.from(bytes).toString('hex');
          const known = cache.get(bytes, 0, bytes.length);
          if (known === undefined) {
            cache.set(bytes, 0, bytes.length, index(n));
            model.set(key, n);
            assert.equal(cache.get(bytes, 0, bytes.length), n);
          } else {
            assert.equal(known, model.get(key));
          }
        });
      }),
    );
  });

  it('keeps all ids of a host of twenty thousand, but for a few', () => {
    const cache = new IdCache(65_536);
    const ids = Array.from({ length: 20_000 }, (_, n) => Buffer.from(`o\x12\x24w-${n}\x22\x24e-${n}`));
    ids.forEach((bytes, n) => {
      cache.set(bytes, 0, bytes.length, index(n));
    });
    const kept = ids.filter((bytes, n) => cache.get(bytes, 0, bytes.length) === n).length;
    assert.ok(kept > 19_900, `${kept} of 20,000`);
  });

  it('looks at the bytes within a longer frame, and keeps a copy of them', () => {
    const cache = new IdCache(16);
    const frame = Buffer.from('..id..');
    cache.set(frame, 2, 4, index(7));
    frame.fill(0);
    assert.equal(cache.get(Buffer.from('id'), 0, 2), 7);
    assert.equal(cache.get(Buffer.from('ie'), 0, 2), undefined);
  });

  it('tells ids apart that end alike', () => {
    const cache = new IdCache(64);
    const ids = Array.from({ length: 20 }, (_, n) =>
      Buffer.from(`namespace-${n}/${'the-same-pod'.repeat(5)}-eth0`),
    );
    for (const [n, bytes] of ids.entries()) {
      cache.set(bytes, 0, bytes.length, index(n));
      assert.equal(cache.get(bytes, 0, bytes.length), n);
    }
    const found = ids.map((bytes) => cache.get(bytes, 0, bytes.length));
    assert.ok(found.every((endpoint, n) => endpoint === undefined || endpoint === n));
  });

  it('keeps no id that is too long for any key', () => {
    const cache = new IdCache(16);
    const long = new Uint8Array(5000);
    cache.set(long, 0, long.length, index(1));
    assert.equal(cache.get(long, 0, long.length), undefined);
  });

  it('forgets all where there is no room for the bytes of one more, and gives no wrong number for it', () => {
    const cache = new IdCache(16);
    const ids = Array.from({ length: 40 }, (_, n) => Buffer.alloc(4000, n));
    for (const [n, bytes] of ids.entries()) {
      cache.set(bytes, 0, bytes.length, index(n));
      assert.equal(cache.get(bytes, 0, bytes.length), n);
      for (const [m, other] of ids.entries())
        assert.ok([undefined, m].includes(cache.get(other, 0, other.length)));
    }
    assert.equal(cache.get(ids[0]!, 0, 4000), undefined);
  });

  it('forgets all when it is cleared', () => {
    const cache = new IdCache(16);
    cache.set(Buffer.from('id'), 0, 2, index(1));
    cache.clear();
    assert.equal(cache.get(Buffer.from('id'), 0, 2), undefined);
  });
});
