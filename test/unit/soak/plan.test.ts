import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { planSoak, type Round } from '../../soak/plan.js';

function first(count: number, seed: number, root = true): Round[] {
  const rounds = planSoak(seed, root);
  return Array.from({ length: count }, () => rounds.next().value as Round);
}

describe('the plan of a soak', () => {
  it('is the same for the same seed, and another one for another', () => {
    assert.deepEqual(first(20, 7), first(20, 7));
    assert.notDeepEqual(first(20, 7), first(20, 8));
  });

  it('has each kind of round once before any comes again', () => {
    for (let seed = 0; seed < 50; seed++) {
      const names = first(10, seed).map(({ name }) => name);
      assert.equal(new Set(names.slice(0, 5)).size, 5);
      assert.deepEqual(new Set(names.slice(5)), new Set(names.slice(0, 5)));
    }
  });

  it('needs no network namespaces where they cannot be made', () => {
    for (const round of first(20, 7, false)) {
      assert.equal(round.kind, 'storm');
      assert.ok(round.kind === 'storm' && !round.args.includes('--via=netlink'), round.name);
    }
  });
});
