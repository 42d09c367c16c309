import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { escapeControls } from '../../../src/telemetry/escape.js';
import { type Log, openLog } from '../../../src/telemetry/log.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-log-'));
after(() => rmSync(folder, { recursive: true }));

function logged(format: 'auto' | 'json' | 'pretty', level: string, use: (log: Log) => void): string {
  const path = join(folder, 'log');
  const fd = openSync(path, 'w');
  try {
    use(openLog({ level, format, fd }));
    return readFileSync(path, 'utf8'); // it is there at once: nothing waits to be written
  } finally {
    closeSync(fd);
  }
}

const hostile = 'one\ntwo\r\u001b[2J\u009b\u0000';

test('JSON has one object a line, whatever is logged', () => {
  const lines = logged('json', 'info', (log) => {
    log.info({ host: hostile }, hostile);
    log.warn({}, 'second');
    log.debug({}, 'not this one');
  })
    .trimEnd()
    .split('\n');
  assert.equal(lines.length, 2);
  const first = JSON.parse(lines[0]!) as Record<string, unknown>;
  assert.deepEqual([first.level, first.host, first.msg, first.pid], [30, hostile, hostile, process.pid]);
});

test('auto is JSON where nobody watches', () => {
  assert.equal(
    (JSON.parse(logged('auto', 'info', (log) => log.info({}, 'x'))) as Record<string, unknown>).msg,
    'x',
  );
});

test('the readable form has one line for the message and one for each field, whatever is logged', () => {
  const text = logged('pretty', 'debug', (log) => log.debug({ host: hostile }, hostile));
  const lines = text.trimEnd().split('\n');
  assert.equal(lines.length, 2, text);
  assert.match(lines[0]!, /^\[\d\d:\d\d:\d\d\.\d{3}\] DEBUG: one\\u000atwo\\u000d\\u001b\[2J\\u009b\\u0000$/);
  assert.match(lines[1]!, /^ {4}host: "one\\ntwo\\r\\u001b\[2J/);
});

test('a log on a full disk ends nothing', () => {
  const fd = openSync('/dev/full', 'w');
  try {
    for (const format of ['json', 'pretty'] as const) {
      const log = openLog({ level: 'info', format, fd });
      for (let i = 0; i < 3; i++) log.warn({ i }, 'no space');
    }
  } finally {
    closeSync(fd);
  }
});

test('control characters are written as what they are', () => {
  assert.equal(escapeControls('a\tb\u007fc\u0085d\u2028e ü'), 'a\\u0009b\\u007fc\\u0085d\\u2028e ü');
});
