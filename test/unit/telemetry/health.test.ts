import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Condition, judge } from '../../../src/telemetry/health.js';

const cases: [string, Condition[], ReturnType<typeof judge>][] = [
  ['nothing to fail', [], { ready: true, degraded: false, reasons: [] }],
  [
    'all is well',
    [
      { name: 'etcd', ok: true, reason: 'not shown' },
      { name: 'queue', ok: true, degradesOnly: true },
    ],
    { ready: true, degraded: false, reasons: [] },
  ],
  [
    'something is missing',
    [
      { name: 'etcd', ok: false, reason: 'does not answer' },
      { name: 'stopping', ok: false },
    ],
    { ready: false, degraded: false, reasons: ['etcd: does not answer', 'stopping'] },
  ],
  [
    'something is less than it should be',
    [{ name: 'queue', ok: false, degradesOnly: true, reason: 'full' }],
    { ready: true, degraded: true, reasons: ['queue: full'] },
  ],
  [
    'both',
    [
      { name: 'queue', ok: false, degradesOnly: true, reason: 'full' },
      { name: 'etcd', ok: false },
    ],
    { ready: false, degraded: true, reasons: ['queue: full', 'etcd'] },
  ],
];

for (const [what, conditions, expected] of cases)
  test(what, () => {
    assert.deepEqual(judge(conditions), expected);
  });
