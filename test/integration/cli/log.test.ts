import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { startFlapd } from '../../support/command.js';
import { until } from '../../support/waiting.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-log-'));
after(() => rmSync(folder, { recursive: true }));

/** A daemon that has an etcd to miss, and so something to log. */
const daemon = (name: string, format: string): string[] => [
  'run',
  ...['--etcd', 'http://127.0.0.1:1', '--endpoints-from', 'feed', '--feed-socket', join(folder, name)],
  ...['--journal', 'memory', '--http', 'off', '--log-level', 'debug', '--set', `log.format=${format}`],
];

describe('the log of flapd run', () => {
  test('is on stderr, one JSON object a line; stdout stays empty', async () => {
    const { code, stdout, stderr } = await startFlapd([...daemon('a', 'auto'), '--for', '1']).ended;
    assert.deepEqual([code, stdout], [0, '']);
    const messages = stderr
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { msg: string }).msg);
    assert.equal(messages[0], 'flapd starts');
    assert.ok(
      messages.some((message) => /etcd does not take what is written/.test(message)),
      stderr,
    );
  });

  for (const format of ['json', 'pretty'])
    test(`does not end flapd when nobody reads it any more (${format})`, async () => {
      const running = startFlapd(daemon(`b-${format}`, format));
      try {
        await until('it to run', () => /etcd does not take what is written/.test(running.stderr()));
        running.child.stderr!.destroy();
        // It has much to say on its way down, and comes to the end of it.
        running.child.kill('SIGTERM');
        const { code } = await running.ended;
        assert.equal(code, 0);
      } finally {
        running.child.kill('SIGKILL');
      }
    });
});
