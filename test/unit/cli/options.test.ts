import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Command, CommanderError } from 'commander';
import { addSettingOptions, seconds, settingsFrom } from '../../../src/cli/options.js';
import type { SettingName, SettingValues } from '../../../src/config/settings.js';
import { CommandError } from '../../../src/daemon/exit.js';

function parse(args: readonly string[], group: 'etcd' | 'run' = 'run'): SettingValues {
  const command = addSettingOptions(new Command('x'), group)
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  command.parse([...args], { from: 'user' });
  return settingsFrom(command.opts(), group).values;
}

describe('each option is a setting', () => {
  const cases: [string[], SettingName, unknown][] = [
    [['--etcd', 'http://a:1,http://b:2'], 'etcd.endpoints', ['http://a:1', 'http://b:2']],
    [['--host', 'node-1'], 'host', 'node-1'],
    [['--region', 'berlin'], 'region', 'berlin'],
    [['--etcd-embedded', '/d'], 'etcd.embeddedDir', '/d'],
    [['--etcd-embedded-port', '0'], 'etcd.embeddedPort', 0],
    [['--endpoints-from', 'interfaces'], 'endpoints.from', 'interfaces'],
    [['--interfaces', '^x'], 'endpoints.interfaces', /^x/],
    [['--feed-socket', '/s'], 'feed.socket', '/s'],
    [['--feed-socket', 'off'], 'feed.socket', null],
    [['--http', '0.0.0.0:1'], 'http', { host: '0.0.0.0', port: 1 }],
    [['--http', 'off'], 'http', null],
    [['--journal', '/j'], 'journal.dir', '/j'],
    [['--journal', 'memory'], 'journal.dir', null],
    [['--lanes', '8'], 'lanes', 8],
    [['--workers', '2'], 'workers', 2],
    [['--log-level', 'debug'], 'log.level', 'debug'],
    [['--set', 'limits.burst=7'], 'limits.burst', 7],
    [['--set', 'endpoints.interfaces=^a=b'], 'endpoints.interfaces', /^a=b/],
    [['--set', 'lanes=2', '--set', 'limits.burst=7', '--set', 'lanes=3'], 'lanes', 3],
    [['--lanes', '8', '--set', 'lanes=2'], 'lanes', 2],
  ];
  for (const [args, name, expected] of cases)
    test(args.join(' '), () => {
      assert.deepEqual(parse(args)[name], expected);
    });
});

describe('what cannot be an option is refused', () => {
  for (const [args, expected] of [
    [['--set', 'lanes'], /must read name=value/],
    [['--set', '=1'], /must read name=value/],
    [['--set', 'lane=1'], /there is no setting lane; did you mean lanes\?/],
    [['--set', 'constructor=1'], /there is no setting constructor/],
    [['--nonsense'], /unknown option/],
    [['--etcd'], /argument missing/],
  ] as const)
    test(args.join(' '), () => {
      assert.throws(
        () => parse(args),
        (error) => error instanceof CommanderError && expected.test(error.message),
      );
    });

  test('those of the daemon alone, where a command has no use for them', () => {
    assert.throws(() => parse(['--lanes', '1'], 'etcd'), CommanderError);
  });
});

test('values that are not allowed end with code 78, all in one message', () => {
  assert.throws(
    () => parse(['--lanes', '0', '--http', 'x', '--config', '/nowhere/flapd.yaml']),
    (error) => {
      assert.ok(error instanceof CommandError);
      assert.equal(error.exitCode, 78);
      assert.match(
        error.message,
        /3 problems:\n.*cannot read \/nowhere\/flapd.yaml.*\n.*lanes from.*\n.*http from/,
      );
      return true;
    },
  );
});

test('seconds are a number above 0', () => {
  assert.equal(seconds('1.5'), 1500);
  for (const text of ['0', '-1', 'x', '', '1e99']) assert.throws(() => seconds(text), /number of seconds/);
});
