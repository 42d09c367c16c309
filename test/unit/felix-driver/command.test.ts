import assert from 'node:assert/strict';
import { it } from 'node:test';
import { felixDriverCommand } from '../../../src/cli/felix-driver.js';
import { definitions } from '../../../src/config/settings.js';

it('flapd felix-driver looks for flapd where flapd listens unless told otherwise', () => {
  const option = felixDriverCommand().options.find(({ long }) => long === '--flapd-socket');
  assert.equal(option?.defaultValue, definitions['driver.socket'].standard());
});
