import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isOurName } from '../../../src/telemetry/http.js';

test('a server on the loopback answers to addresses and localhost only', () => {
  for (const [host, ours] of [
    [undefined, true],
    ['127.0.0.1:9889', true],
    ['127.0.0.1', true],
    ['[::1]:9889', true],
    ['LocalHost:9889', true],
    ['10.0.0.1:9889', true],
    ['evil.example:9889', false],
    ['localhost.evil.example', false],
    ['127.0.0.1.evil.example', false],
    ['', false],
  ] as const)
    for (const bound of ['127.0.0.1', '127.1.2.3', '::1', 'localhost'])
      assert.equal(isOurName(host, bound), ours, `${host} on ${bound}`);
});

test('a server that is open to others answers to any name', () => {
  assert.equal(isOurName('node-7.example:9889', '0.0.0.0'), true);
});
