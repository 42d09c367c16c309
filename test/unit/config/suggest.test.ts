import assert from 'node:assert/strict';
import { test } from 'node:test';
import { didYouMean } from '../../../src/config/suggest.js';

test('a name is suggested where one is close, and none where none is', () => {
  const names = ['lanes', 'limits.burst', 'limits.txnsPerSecond', 'log.level'];
  for (const [name, expected] of [
    ['lane', '; did you mean lanes?'],
    ['LANES', '; did you mean lanes?'],
    ['limits.brust', '; did you mean limits.burst?'],
    ['limits.txnPerSeconds', '; did you mean limits.txnsPerSecond?'],
    ['colour', ''],
    ['', ''],
  ] as const)
    assert.equal(didYouMean(name, names), expected, name);
});
