import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { percentilesOf } from '../../../bench/macro/percentiles.js';
import { Samples } from '../../../bench/macro/samples.js';
import { targets } from '../../../bench/macro/targets.js';
import { rowsOf } from '../../../bench/result.js';
import { full, quick, scaled } from '../../../bench/sizes.js';

const rowOf = (samples: Samples, name: string) => rowsOf(samples).find((row) => row.name === name)!;

describe("the bench's rows", () => {
  it('are one for each target, also of what was not measured', () => {
    const rows = rowsOf(new Samples());
    assert.deepEqual(
      rows.map(({ name, target, ratio, ok }) => ({ name, target, ratio, ok })),
      targets.map(({ name, target }) => ({ name, target, ratio: null, ok: false })),
    );
  });

  it('have the median of the rounds, and from where to where they went', () => {
    const samples = new Samples();
    for (const figure of [0.95, 0.2, 0.93]) samples.add('sustained against ceiling', figure);
    const { ratio, ok, spread } = rowOf(samples, 'sustained against ceiling');
    assert.deepEqual({ ratio, ok, spread }, { ratio: 0.93, ok: true, spread: [0.2, 0.95] });
  });

  it('are ok at most, or at least, at their target', () => {
    const samples = new Samples();
    samples.add('against put-per-event', 4.99);
    samples.add('idle RSS', 90);
    samples.add('cold start writes', 1);
    assert.equal(rowOf(samples, 'against put-per-event').ok, false);
    assert.equal(rowOf(samples, 'idle RSS').ok, true);
    assert.equal(rowOf(samples, 'cold start writes').ok, false);
  });

  it('are not ok where something was lost, however cheaply, and say what', () => {
    const samples = new Samples();
    samples.add('netlink at 10,000/s', 12);
    samples.fault('netlink at 10,000/s', 'lost: 1 overruns');
    const { ratio, ok, why } = rowOf(samples, 'netlink at 10,000/s');
    assert.deepEqual({ ratio, ok, why }, { ratio: 12, ok: false, why: 'lost: 1 overruns' });
  });

  it('are of figures only', () => {
    assert.throws(() => new Samples().add('flapd, CPU us', Number.NaN), /nothing was done/);
  });
});

describe('percentiles', () => {
  it('of a hundred and of one', () => {
    const hundred = Array.from({ length: 100 }, (_, i) => i + 1);
    assert.deepEqual(percentilesOf(hundred), { p50: 51, p90: 91, p99: 100, max: 100 });
    assert.deepEqual(percentilesOf([7]), { p50: 7, p90: 7, p99: 7, max: 7 });
  });
});

describe("the bench's sizes", () => {
  it('all of the work is the work', () => {
    assert.deepEqual(scaled(full, 1), full);
    assert.deepEqual(scaled(quick, 1), quick);
  });

  it('a part of it has a point of each curve that is measured at all', () => {
    const { curves, manyEndpoints } = scaled(full, 0.01);
    assert.equal(manyEndpoints, 1000);
    for (const points of [curves.endpoints, curves.operations, curves.lanes, curves.latency.perSecond])
      assert.equal(points.length, 1);
  });
});
