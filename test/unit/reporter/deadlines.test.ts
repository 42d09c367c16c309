import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Deadlines } from '../../../src/reporter/deadlines.js';
import { Ring } from '../../../src/reporter/ring.js';

const step = fc.oneof(
  fc.record({ op: fc.constant('set' as const), item: fc.nat(20), time: fc.nat(100) }),
  fc.record({ op: fc.constant('delete' as const), item: fc.nat(20), time: fc.constant(0) }),
  fc.record({ op: fc.constant('take' as const), item: fc.constant(0), time: fc.nat(100) }),
);

describe('deadlines', () => {
  it('behave as a sorted list does', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const deadlines = new Deadlines();
        const model = new Map<number, number>();
        for (const { op, item, time } of steps) {
          if (op === 'set') {
            deadlines.set(item, time);
            model.set(item, time);
          } else if (op === 'delete') {
            deadlines.delete(item);
            model.delete(item);
          } else {
            const taken = deadlines.takeDue(time);
            const earliest = Math.min(...model.values());
            if (earliest > time) assert.equal(taken, undefined);
            else assert.equal(model.get(taken!), earliest);
            model.delete(taken!);
          }
          assert.equal(deadlines.size, model.size);
          assert.equal(deadlines.earliest, Math.min(...model.values(), Number.POSITIVE_INFINITY));
        }
      }),
    );
  });
});

describe('ring', () => {
  it('behaves as an array does', () => {
    const op = fc.tuple(fc.constantFrom('push', 'unshift', 'shift'), fc.nat(1000));
    fc.assert(
      fc.property(fc.array(op, { maxLength: 200 }), (ops) => {
        const ring = new Ring();
        const model: number[] = [];
        for (const [name, item] of ops) {
          if (name === 'push') {
            ring.push(item);
            model.push(item);
          } else if (name === 'unshift') {
            ring.unshift(item);
            model.unshift(item);
          } else {
            assert.equal(ring.shift(), model.shift());
          }
          assert.equal(ring.size, model.length);
        }
      }),
    );
  });
});
