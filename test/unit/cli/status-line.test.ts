import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatLine, statusLine } from '../../../src/cli/status-line.js';

const at = { time: '2026-01-02T03:04:05.678Z', revision: 42, initial: false };
const up = Buffer.from('{"status":"up"}');
const workload = '/calico/felix/v2/no-region/host/node-1/workload/openstack/openstack%2fvm-1/endpoint/port-1';

describe('keys', () => {
  const cases: [string, object | null][] = [
    [workload, { region: null, host: 'node-1', endpoint: 'openstack/openstack%2fvm-1/port-1' }],
    [
      '/calico/felix/v2/region-berlin/host/node-1/workload/o/w/endpoint/e',
      { region: 'berlin', host: 'node-1', endpoint: 'o/w/e' },
    ],
    ['/calico/felix/v1/host/node-1/endpoint/eth0', { region: null, host: 'node-1', endpoint: 'eth0' }],
    ['/calico/felix/v2/no-region/host/node-1/status', null],
    ['/calico/felix/v2/no-region/host/node-1/last_reported_status', null],
    ['/calico/felix/v2/berlin/host/node-1/workload/o/w/endpoint/e', null],
    [`${workload}/more`, null],
    ['/calico/flapd/v1/no-region/host/node-1/claim', null],
  ];
  for (const [key, expected] of cases)
    test(key, () => {
      assert.deepEqual(
        statusLine(key, up, at),
        expected === null ? null : { ...at, ...expected, status: 'up' },
      );
    });
});

describe('values', () => {
  for (const [value, expected] of [
    [Buffer.from('{"status":"down"}'), { status: 'down' }],
    [Buffer.from('{"status":"error"}'), { status: 'error' }],
    [null, { status: 'removed' }],
    [Buffer.from('[]'), { status: 'unreadable', value: '[]' }],
    [Buffer.from('{"status":"removed"}'), { status: 'unreadable', value: '{"status":"removed"}' }],
    [Buffer.from([0xff]), { status: 'unreadable', value: '\ufffd' }],
  ] as const)
    test(String(value), () => {
      const { status, value: shown } = statusLine(workload, value, at)!;
      assert.deepEqual(shown === undefined ? { status } : { status, value: shown }, expected);
    });
});

describe('lines for people', () => {
  test('have time, revision, host, endpoint, status', () => {
    assert.equal(
      formatLine(statusLine(workload, up, at)!),
      '2026-01-02T03:04:05.678Z        42  node-1  openstack/openstack%2fvm-1/port-1  up',
    );
  });

  test('say of what was there before only that it is so now', () => {
    assert.match(
      formatLine(statusLine(workload, up, { ...at, initial: true })!),
      /^now {21} {8}42 {2}node-1/,
    );
  });

  test('show an unreadable value', () => {
    assert.match(formatLine(statusLine(workload, Buffer.from('"x'), at)!), /unreadable "\\"x"$/);
  });

  test('cannot be made to disturb the terminal', () => {
    const key = '/calico/felix/v1/host/a\u001b[2J\n/endpoint/e\u009b';
    const line = formatLine(statusLine(key, Buffer.from('\u001b]0;x\u0007\u009b'), at)!);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    assert.doesNotMatch(line, /[\u0000-\u001f\u007f-\u009f]/);
  });
});
