import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Limiter } from '../../../src/reporter/limiter.js';

function takeAll(limiter: Limiter, nowMs: number): number {
  let taken = 0;
  while (taken < 10_000 && limiter.take(nowMs)) taken++;
  return taken;
}

describe('limiter', () => {
  it('lets a burst go at once, then the set rate', () => {
    const limiter = new Limiter({ txnsPerSecond: 50, burst: 100 });
    assert.equal(takeAll(limiter, 0), 100);
    assert.equal(takeAll(limiter, 1000), 50);
    assert.equal(takeAll(limiter, 1010), 0);
    assert.equal(limiter.nextAtMs(1010), 1020);
    assert.equal(takeAll(limiter, 1020), 1);
  });

  it('never saves more than a burst', () => {
    const limiter = new Limiter({ txnsPerSecond: 50, burst: 3 });
    takeAll(limiter, 0);
    assert.equal(takeAll(limiter, 3_600_000), 3);
  });

  it('is off at 0', () => {
    const limiter = new Limiter({ txnsPerSecond: 0, burst: 1 });
    assert.equal(takeAll(limiter, 0), 10_000);
    limiter.overloaded(0);
    assert.equal(takeAll(limiter, 0), 10_000);
    assert.equal(limiter.rate, 0);
  });

  it('halves at an overload, once a second at most, and comes back step by step', () => {
    const limiter = new Limiter({ txnsPerSecond: 40, burst: 1 });
    limiter.overloaded(10_000);
    limiter.overloaded(10_500);
    assert.equal(limiter.rate, 20);
    limiter.overloaded(11_000);
    assert.ok(limiter.rate < 12 && limiter.rate >= 10, `rate ${limiter.rate}`);
    const low = limiter.rate;
    limiter.take(13_000);
    assert.equal(limiter.rate, low + 2 * 2);
    limiter.take(60_000);
    assert.equal(limiter.rate, 40);
  });

  it('never falls below one a second', () => {
    const limiter = new Limiter({ txnsPerSecond: 4, burst: 1 });
    for (let second = 1; second <= 20; second++) {
      limiter.overloaded(second * 1000);
      assert.ok(limiter.rate >= 1, `rate ${limiter.rate}`);
    }
  });
});
