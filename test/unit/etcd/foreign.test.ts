import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ForeignWrites, type StatusWrite } from '../../../src/etcd/foreign.js';

const write = (revision: number, key = 'a'): StatusWrite => ({ key, revision });
const revisions = (writes: readonly StatusWrite[]) => writes.map(({ revision }) => revision);

describe("writes to status keys that are not flapd's", () => {
  it('are those of a revision at which no cursor was put', () => {
    const foreign = new ForeignWrites();
    assert.deepEqual(foreign.cursor(5), []);
    assert.deepEqual(foreign.statuses([write(5), write(5, 'b')]), []);
    assert.deepEqual(foreign.statuses([write(6)]), []);
    assert.deepEqual(foreign.cursor(7), [write(6)]);
    assert.deepEqual(foreign.settle(9), [], 'told once');
  });

  it('are not told before it is certain: the cursor may come after the status', () => {
    const foreign = new ForeignWrites();
    assert.deepEqual(foreign.statuses([write(5), write(6)]), []);
    assert.deepEqual(foreign.cursor(5), []);
    assert.deepEqual(foreign.cursor(6), []);
    assert.deepEqual(foreign.settle(100), []);
  });

  it('are told where the cursors rest, once it is known that they do', () => {
    const foreign = new ForeignWrites();
    assert.deepEqual(foreign.statuses([write(5), write(6)]), []);
    assert.deepEqual(foreign.settle(5), [write(5)]);
    assert.deepEqual(foreign.settle(6), [write(6)]);
    assert.deepEqual(foreign.statuses([write(6, 'b')]), [write(6, 'b')]);
  });

  it('are found in any order in which two watches may tell of them', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { maxLength: 60 }),
        fc.infiniteStream(fc.boolean()),
        (ownByRevision, pick) => {
          const foreign = new ForeignWrites();
          const found: number[] = [];
          const statuses = ownByRevision.map((_, revision) => revision + 1);
          const cursors = statuses.filter((revision) => ownByRevision[revision - 1]);
          for (const first of pick) {
            if (statuses.length + cursors.length === 0) break;
            if ((first && statuses.length > 0) || cursors.length === 0)
              found.push(...revisions(foreign.statuses([write(statuses.shift()!)])));
            else found.push(...revisions(foreign.cursor(cursors.shift()!)));
          }
          found.push(...revisions(foreign.settle(ownByRevision.length)));
          const expected = ownByRevision.flatMap((own, i) => (own ? [] : [i + 1]));
          assert.deepEqual(
            found.toSorted((a, b) => a - b),
            expected,
          );
        },
      ),
    );
  });

  it('are passed over rather than guessed at, where more than it holds has happened meanwhile', () => {
    const foreign = new ForeignWrites({ heldMax: 3 });
    for (let revision = 1; revision <= 5; revision++) foreign.cursor(revision);
    assert.deepEqual(foreign.statuses([write(1), write(2)]), [], 'its own, no longer known as such');
    assert.equal(foreign.unjudged, 2);
    assert.deepEqual(foreign.statuses([write(3), write(5)]), []);
    assert.equal(foreign.unjudged, 2);
    foreign.statuses([write(6), write(7), write(8), write(9)]);
    assert.deepEqual(revisions(foreign.settle(9)), [7, 8, 9]);
    assert.equal(foreign.unjudged, 3);
  });

  it('are looked for afresh after etcd was set back', () => {
    const foreign = new ForeignWrites();
    foreign.cursor(10);
    foreign.statuses([write(12)]);
    foreign.reset();
    assert.deepEqual(foreign.statuses([write(4)]), []);
    assert.deepEqual(foreign.cursor(4), []);
    assert.deepEqual(foreign.statuses([write(5)]), []);
    assert.deepEqual(foreign.settle(5), [write(5)]);
  });
});
