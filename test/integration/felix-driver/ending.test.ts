import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { flapd } from '../../support/command.js';
import { until } from '../../support/waiting.js';
import { allOf, Felix, type FelixOptions, fakeDriver } from './felix.js';

function felix(test: TestContext, options: FelixOptions): Felix {
  const one = new Felix(options);
  test.after(() => one.close());
  return one;
}

describe('flapd felix-driver', { timeout: 60_000 }, () => {
  for (const code of [0, 3, 255]) {
    it(`ends with the real driver's exit code ${code}, after its last words`, async (test) => {
      const one = felix(test, { driver: fakeDriver('exit', String(code)) });
      assert.equal(await allOf(one.fromDriver), 'last words');
      assert.deepEqual(await one.ended, { code, signal: null });
    });
  }

  for (const signal of ['SIGTERM', 'SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGPIPE', 'SIGUSR1'] as const) {
    it(`ends by ${signal} where the real driver does, after its last words`, async (test) => {
      const one = felix(test, { driver: fakeDriver('die', signal) });
      assert.equal(await allOf(one.fromDriver), 'last words');
      assert.deepEqual(await one.ended, { code: null, signal });
    });
  }

  it('passes signals on, and ends when the real driver does', async (test) => {
    const one = felix(test, { driver: fakeDriver('signals') });
    let heard = '';
    one.fromDriver.setEncoding('utf8').on('data', (text: string) => {
      heard += text;
    });
    await until('the driver', () => heard === 'ready\n');
    for (const signal of [
      'SIGHUP',
      'SIGINT',
      'SIGUSR1',
      'SIGUSR2',
      'SIGQUIT',
      'SIGWINCH',
      'SIGTERM',
    ] as const) {
      one.child.kill(signal);
      await until(`${signal} to be heard`, () => heard.endsWith(`${signal}\n`));
    }
    assert.deepEqual(await one.ended, { code: 7, signal: null });
    assert.doesNotMatch(one.stderr, /Debugger listening/);
  });

  it('ends at once by SIGKILL where the real driver is killed', async (test) => {
    const one = felix(test, { driver: fakeDriver('relay') });
    const pid = await until('the driver', () => one.driverPid);
    process.kill(pid, 'SIGKILL');
    assert.deepEqual(await one.ended, { code: null, signal: 'SIGKILL' });
  });

  it('leaves the real driver with its pipes closed when it is killed itself', async (test) => {
    const one = felix(test, { driver: fakeDriver('relay') });
    await until('the driver', () => one.driverPid);
    one.child.kill('SIGKILL');
    one.dataplaneSays.end(); // the relay ends when both ways have
    assert.equal(await allOf(one.dataplaneHears), '');
    assert.deepEqual(await one.ended, { code: null, signal: 'SIGKILL' });
  });

  it('gives the real driver its arguments, environment and stdin', async (test) => {
    const args = ['--flapd-socket', 'its own', '-x', '--', 'last'];
    const one = felix(test, {
      driver: fakeDriver('environment', ...args),
      env: { FAKE_MARKER: 'passed on' },
    });
    one.dataplaneSays.end('its stdin');
    assert.deepEqual(JSON.parse(await allOf(one.fromDriver)), {
      args,
      marker: 'passed on',
      stdin: 'its stdin',
    });
  });

  it('says what is wrong with a driver that is not there, as a shell does', async (test) => {
    const one = felix(test, { driver: ['/does/not/exist'] });
    assert.equal(await allOf(one.fromDriver), '');
    assert.deepEqual(await one.ended, { code: 127, signal: null });
    assert.match(one.stderr, /cannot start the real driver \/does\/not\/exist: it is not there/);
  });

  it('says what is wrong with a driver that cannot be executed, as a shell does', async (test) => {
    const folder = mkdtempSync(join(tmpdir(), 'flapd-driver-'));
    test.after(() => rmSync(folder, { recursive: true }));
    const path = join(folder, 'driver');
    writeFileSync(path, '#!/bin/sh\n');
    chmodSync(path, 0o644);
    const one = felix(test, { driver: [path] });
    assert.deepEqual(await one.ended, { code: 126, signal: null });
    assert.match(one.stderr, /cannot start the real driver .*EACCES/);
  });

  it('wants to be started by Felix', async () => {
    const none = await flapd(['felix-driver', '--', '/bin/true']);
    assert.equal(none.code, 64);
    assert.match(none.stderr, /Felix's pipes are expected as file descriptors 3 and 4/);
    // With one of them alone the other's number is taken by something of node's own.
    const main = fileURLToPath(new URL('../../../src/cli/main.js', import.meta.url));
    const one = spawnSync(process.execPath, [main, 'felix-driver', '--', '/bin/true'], {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      encoding: 'utf8',
    });
    assert.equal(one.status, 64);
    assert.match(one.stderr, /is no pipe \(4\)/);
  });

  it('wants a real driver', async () => {
    const { code, stderr } = await flapd(['felix-driver']);
    assert.equal(code, 64);
    assert.match(stderr, /missing required argument 'command'/);
  });
});
