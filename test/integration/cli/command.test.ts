import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { flapd } from '../../support/command.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-cli-'));
after(() => rmSync(folder, { recursive: true }));

describe('help and version', () => {
  test('--help names the commands', async () => {
    const { code, stdout, stderr } = await flapd(['--help']);
    assert.deepEqual([code, stderr], [0, '']);
    for (const command of ['run', 'watch', 'storm'])
      assert.match(stdout, new RegExp(`^ {2}${command} `, 'm'));
  });

  test('--version is that of the package', async () => {
    const { version } = JSON.parse(
      readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8'),
    ) as { version: string };
    assert.deepEqual(await flapd(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' });
  });

  for (const args of [
    ['run', '--help'],
    ['help', 'run'],
  ])
    test(`flapd ${args.join(' ')} tells the options and the exit codes`, async () => {
      const { code, stdout } = await flapd(args);
      assert.equal(code, 0);
      assert.match(stdout, /--etcd <urls>/);
      assert.match(stdout, /Exit codes: .*77/);
    });
});

describe('usage that is wrong ends with 64 and says where help is', () => {
  for (const [args, expected] of [
    [['--nonsense'], /unknown option '--nonsense'/],
    [['run', '--nonsense'], /unknown option '--nonsense'/],
    [['watch', '--json', 'more'], /too many arguments/],
    [['runn'], /unknown command 'runn'/],
    [['run', '--for', '0'], /--for <seconds>.* is invalid/],
    [['run', '--set', 'lane=1'], /did you mean lanes\?/],
    [['watch', '--from-revision', 'x'], /a whole number above 0/],
    [['watch', '--from-revision', '0'], /a whole number above 0/],
  ] as const)
    test(`flapd ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await flapd(args);
      assert.deepEqual([code, stdout], [64, '']);
      assert.match(stderr, expected);
      assert.match(stderr, /flapd --help/);
    });

  test('also where nothing is asked for', async () => {
    const { code, stderr } = await flapd([]);
    assert.equal(code, 64);
    assert.match(stderr, /^Usage: flapd/);
  });
});

test('configuration that is wrong ends with 78, and lists every problem from every place', async () => {
  const config = join(folder, 'flapd.yaml');
  writeFileSync(config, 'limits:\n  burst: none\n  brust: 1\n');
  const { code, stdout, stderr } = await flapd(['run', '--config', config, '--lanes', '0'], {
    env: {
      FLAPD_ETCD_ENDPOINTS: 'http://root:hunter2@etcd:2379',
      FLAPD_LANE: '1',
      FELIX_DATASTORETYPE: 'kubernetes',
    },
  });
  assert.deepEqual([code, stdout], [78, '']);
  assert.match(stderr, /^flapd: the configuration has 6 problems:$/m);
  for (const expected of [
    /^ {2}- lanes from the command line: "0" is not a whole number/m,
    /^ {2}- limits\.burst from .*flapd\.yaml: "none" is not a whole number/m,
    /^ {2}- "limits\.brust" in .*flapd\.yaml is no setting; did you mean limits\.burst\?$/m,
    /^ {2}- etcd\.endpoints from FLAPD_ETCD_ENDPOINTS in the environment: "http:\/\/\(redacted\)@etcd:2379"/m,
    /^ {2}- "FLAPD_LANE" in the environment is no setting; did you mean FLAPD_LANES\?$/m,
    /^ {2}- FELIX_DATASTORETYPE in the environment: "kubernetes" is not etcdv3/m,
  ])
    assert.match(stderr, expected);
  assert.doesNotMatch(stderr, /hunter2/);
});

test('a port that is taken ends with 71 where HTTP is required', async () => {
  const other = createServer();
  other.listen(0, '127.0.0.1');
  await once(other, 'listening');
  try {
    const { port } = other.address() as AddressInfo;
    const { code, stderr } = await flapd([
      'run',
      ...['--http', `127.0.0.1:${port}`, '--set', 'httpRequired=true'],
      ...['--endpoints-from', 'feed', '--feed-socket', join(folder, 'feed.sock')],
      ...['--journal', 'memory', '--etcd', 'http://127.0.0.1:1', '--for', '10'],
    ]);
    assert.equal(code, 71, stderr);
    assert.match(stderr, /flapd: cannot serve HTTP on 127\.0\.0\.1:\d+: .*EADDRINUSE/);
  } finally {
    other.close();
  }
});

test('etcd out of reach ends a one-shot command with 69, saying where it was looked for', async () => {
  const { code, stderr } = await flapd([
    'watch',
    '--etcd',
    'http://127.0.0.1:1',
    '--set',
    'etcd.deadline=500ms',
  ]);
  assert.equal(code, 69, stderr);
  assert.match(stderr, /^flapd: cannot read from etcd at http:\/\/127\.0\.0\.1:1: .*--etcd$/m);
});
