import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Status } from '../../../src/endpoints/status.js';
import { expectedOfFeed, expectedOfInterface, type Known } from '../../../src/storm/plan/expectation.js';
import { makePlan, type PlanOptions } from '../../../src/storm/plan/plan.js';

const { up, down, removed } = Status;
const options: PlanOptions = {
  seed: 1,
  endpoints: 20,
  transitions: 2000,
  hot: null,
  removals: 0.1,
  initial: null,
  expectedOf: expectedOfFeed,
};

describe('what etcd must get for what is told', () => {
  const cases: readonly (readonly [string, Known, Status, readonly Status[]])[] = [
    ['the first status of an unknown endpoint', null, up, [up]],
    ['a flap', up, down, [down]],
    ['the status it has already: nothing', down, down, []],
    ['a removal', up, removed, [removed]],
    ['the removal of an endpoint that was never there: nothing', null, removed, []],
    ['a return with up: down first', removed, up, [down, up]],
    ['a return with down: once', removed, down, [down]],
  ];
  for (const [name, before, told, expected] of cases) {
    it(name, () => assert.deepEqual(expectedOfFeed(before, told), expected));
  }
});

describe('what etcd must get for what happens to an interface', () => {
  it('is that it goes down before it is gone', () => {
    assert.deepEqual(expectedOfInterface(up, removed), [down, removed]);
    assert.deepEqual(expectedOfInterface(down, removed), [removed]);
    assert.deepEqual(expectedOfInterface(removed, up), [down, up]);
    assert.deepEqual(expectedOfInterface(up, down), [down]);
  });
});

describe('the plan of a storm', () => {
  it('is the same for the same seed, and another for another', () => {
    assert.deepEqual(makePlan(options), makePlan(options));
    assert.notDeepEqual(makePlan(options).statuses, makePlan({ ...options, seed: 2 }).statuses);
  });

  it('makes etcd get exactly as many transitions as asked for, never the same status twice in a row', () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.integer({ min: 1, max: 30 }),
        fc.integer({ min: 1, max: 500 }),
        fc.constantFrom<Known>(null, up),
        (seed, endpoints, transitions, initial) => {
          const plan = makePlan({
            seed,
            endpoints,
            transitions,
            hot: null,
            removals: 0.3,
            initial,
            expectedOf: expectedOfInterface,
          });
          assert.equal(
            plan.expected.reduce((sum, statuses) => sum + statuses.length, 0),
            transitions,
          );
          assert.ok(plan.length >= 1 && plan.length <= transitions);
          for (const statuses of plan.expected) {
            let before: Known = initial;
            for (const status of statuses) {
              assert.notEqual(status, before);
              if (before === removed) assert.equal(status, down, 'an endpoint comes back with down');
              before = status;
            }
          }
        },
      ),
    );
  });

  it('has no step that flapd would ignore', () => {
    const plan = makePlan(options);
    const known = new Array<Known>(options.endpoints).fill(null);
    for (let step = 0; step < plan.length; step++) {
      const endpoint = plan.endpoints[step]!;
      const status = plan.statuses[step] as Status;
      assert.notEqual(expectedOfFeed(known[endpoint]!, status).length, 0, `step ${step}`);
      known[endpoint] = status;
    }
  });

  it('removes no endpoint where removals are switched off, and then only flaps', () => {
    const plan = makePlan({ ...options, removals: 0, initial: up });
    assert.equal(plan.length, options.transitions);
    for (const statuses of plan.expected)
      assert.deepEqual(
        statuses,
        statuses.map((_, i) => (i % 2 === 0 ? down : up)),
      );
  });

  it('gives the hot endpoint its share, and the others alike', () => {
    const { expected } = makePlan({ ...options, endpoints: 200, transitions: 20_000, hot: 0.5 });
    const [hot, ...others] = expected.map((statuses) => statuses.length);
    assert.ok(hot! > 9_500 && hot! < 10_500, `the hot one has ${hot}`);
    assert.ok(Math.max(...others) < 150, `the busiest of the others has ${Math.max(...others)}`);
    assert.ok(Math.min(...others) > 10, `the quietest of the others has ${Math.min(...others)}`);
  });

  it('refuses what no storm can be made of', () => {
    assert.throws(() => makePlan({ ...options, endpoints: 0 }), RangeError);
    assert.throws(() => makePlan({ ...options, transitions: 0.5 }), RangeError);
    assert.throws(() => makePlan({ ...options, hot: 1.5 }), RangeError);
  });
});
