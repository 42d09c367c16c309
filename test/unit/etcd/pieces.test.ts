import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Pieces } from '../../../src/etcd/pieces.js';

const copied = (pieces: Pieces, number: number): Uint8Array => {
  const target = new Uint8Array(3 + pieces.lengthOf(number) + 2).fill(7);
  const end = pieces.copy(number, new DataView(target.buffer), 3);
  assert.equal(end, target.length - 2);
  assert.deepEqual([...target.subarray(0, 3), ...target.subarray(end)], [7, 7, 7, 7, 7]);
  return target.subarray(3, end);
};

describe('many pieces in one buffer', () => {
  it('are what was added, until they are deleted; others may go with what is', () => {
    const number = fc.integer({ min: 0, max: 5000 });
    const step = fc.record({
      number,
      piece: fc.oneof(fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.constant(new Uint8Array(30_000))),
      remove: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const pieces = new Pieces();
        const model = new Map<number, Uint8Array>();
        for (const { number, piece, remove } of steps) {
          if (remove) {
            pieces.delete(number);
            model.delete(number);
            for (const other of model.keys()) if (pieces.lengthOf(other) === 0) model.delete(other);
          } else if (!model.has(number)) {
            pieces.add(number, piece);
            model.set(number, piece);
          }
          assert.equal(pieces.lengthOf(number), model.get(number)?.length ?? 0);
        }
        for (const [number, piece] of model) assert.deepEqual(copied(pieces, number), piece);
      }),
    );
  });

  it('keep the others as long as most of the room is theirs', () => {
    const pieces = new Pieces();
    for (let number = 0; number < 100; number++) pieces.add(number, Uint8Array.of(number, 1, 2, 3, 4));
    for (let number = 0; number < 50; number++) pieces.delete(number);
    for (let number = 50; number < 100; number++)
      assert.deepEqual(copied(pieces, number), Uint8Array.of(number, 1, 2, 3, 4));
  });

  it('do not grow where endpoints come and go', () => {
    const before = process.memoryUsage().arrayBuffers;
    const pieces = new Pieces();
    const piece = new Uint8Array(1000);
    for (let number = 0; number < 100_000; number++) {
      pieces.add(number % 10, piece);
      pieces.delete(number % 10);
    }
    assert.ok(process.memoryUsage().arrayBuffers - before < 2 ** 20); // what went through has a hundred times that
    pieces.add(0, piece);
    assert.equal(copied(pieces, 0).length, 1000);
  });

  it('of a number that never was are none', () => {
    const pieces = new Pieces();
    pieces.delete(1_000_000);
    assert.equal(pieces.lengthOf(1_000_000), 0);
  });
});
