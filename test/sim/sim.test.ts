import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { replayCommand, simulate } from './simulate.js';

const seeds = 10_000;

describe('the core, simulated', () => {
  it(`keeps G1 to G5 over ${seeds} seeds of flaps, lost answers, crashes, lost journals, set-backs and take-overs`, () => {
    for (let seed = 1; seed <= seeds; seed++) {
      const { problems, summary } = simulate(seed);
      assert.deepEqual(problems, [], `seed ${seed}: ${summary}\nreplay: ${replayCommand(seed)}`);
    }
  });
});
