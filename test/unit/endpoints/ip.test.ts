import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { canonicalIp } from '../../../src/endpoints/ip.js';

describe('IP addresses', () => {
  const rows = [
    ['FE80:0:0:0:0:0:0:1/64', 'fe80::1'],
    ['2001:db8::0:1', '2001:db8::1'],
    ['::ffff:10.0.0.1', '::ffff:a00:1'],
    ['10.0.0.1/24', '10.0.0.1'],
    ['no:address', 'no:address'],
  ] as const;
  for (const [given, expected] of rows)
    it(`${given} is ${expected}`, () => assert.equal(canonicalIp(given), expected));
});
