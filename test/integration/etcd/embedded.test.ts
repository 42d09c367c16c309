import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import { EmbeddedEtcd, EmbeddedEtcdError, findEtcdBinary, freePort } from '../../../src/etcd/embedded.js';
import { etcdBinary } from '../../support/etcd.js';
import { mainFile } from '../../support/flapd.js';
import { until } from '../../support/waiting.js';
import { versions } from './fixture.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'flapd-embedded-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Through etcd's JSON gateway, where keys and values are base64. */
async function ask(endpoint: string, method: 'put' | 'range', body: object): Promise<string> {
  const response = await fetch(`${endpoint}/v3/kv/${method}`, { method: 'POST', body: JSON.stringify(body) });
  return response.text();
}

/** A program that takes etcd's arguments and does this instead. */
function pretender(script: string): string {
  const file = join(folder, 'etcd');
  writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return file;
}

function failure(binary: string, clientPort = 0, startWithinMs = 20_000): Promise<EmbeddedEtcdError> {
  const dataDir = join(folder, 'data');
  return EmbeddedEtcd.start({ binary, dataDir, clientPort, startWithinMs }).then(
    async (etcd) => {
      await etcd.stop();
      throw new Error('it started');
    },
    (error: unknown) => {
      assert.ok(error instanceof EmbeddedEtcdError, String(error));
      return error;
    },
  );
}

for (const version of versions) {
  describe(`an etcd ${version} of flapd's own`, () => {
    it('serves on a free port, and has its data still after a stop, and after a power cut', async () => {
      const options = { binary: etcdBinary(version), dataDir: join(folder, 'data'), clientPort: 0 };
      const [key, value] = [btoa('k'), btoa('v')];
      let etcd = await EmbeddedEtcd.start(options);
      await ask(etcd.endpoint, 'put', { key, value });
      await etcd.stop();
      etcd = await EmbeddedEtcd.start(options);
      assert.match(await ask(etcd.endpoint, 'range', { key }), new RegExp(value));
      await etcd.crash();
      etcd = await EmbeddedEtcd.start(options);
      assert.match(await ask(etcd.endpoint, 'range', { key }), new RegExp(value));
      await etcd.stop();
    });
  });
}

describe("an etcd of flapd's own", () => {
  it('tells when it ends by itself, and not when it is told to end', async () => {
    const told: string[] = [];
    const options = { binary: etcdBinary(), dataDir: join(folder, 'data'), clientPort: 0 };
    const onExit = (why: string): unknown => told.push(why);
    const stopped = await EmbeddedEtcd.start({ ...options, onExit });
    await stopped.stop();
    const killed = await EmbeddedEtcd.start({ ...options, onExit });
    process.kill(killed.pid, 'SIGKILL');
    await until('its end to be told', () => told.length > 0);
    assert.deepEqual(told, ['signal SIGKILL']);
  });

  it("is in a session of its own, where no Ctrl-C at flapd's terminal reaches it", async () => {
    const etcd = await EmbeddedEtcd.start({
      binary: etcdBinary(),
      dataDir: join(folder, 'data'),
      clientPort: 0,
    });
    // proc(5): pid (comm) state ppid pgrp session ...
    const stat = readFileSync(`/proc/${etcd.pid}/stat`, 'utf8');
    const [, , pgrp, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    assert.deepEqual([pgrp, session], [String(etcd.pid), String(etcd.pid)]);
    await etcd.stop();
  });

  it('can be stopped while it is frozen', async () => {
    const etcd = await EmbeddedEtcd.start({
      binary: etcdBinary(),
      dataDir: join(folder, 'data'),
      clientPort: 0,
    });
    etcd.kill('SIGSTOP');
    await etcd.stop();
    await assert.rejects(fetch(etcd.endpoint));
  });

  it('is refused a port that is taken, with the option that chooses another', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const { message } = await failure(etcdBinary(), port);
    assert.match(message, new RegExp(`port ${port} is taken`));
    assert.match(message, /--etcd-embedded-port/);
    await new Promise((resolve) => server.close(resolve));
  });

  it('that ends at once is quoted', async () => {
    const { message } = await failure(pretender('echo "the disk is on fire" >&2; exit 3'));
    assert.match(message, /ended: exit code 3/);
    assert.match(message, /the disk is on fire/);
  });

  it('that cannot be started is named', async () => {
    const binary = join(folder, 'nothing-there');
    assert.ok((await failure(binary)).message.includes(binary));
  });

  // Both wait for ever for a database that another process has locked; after ten seconds they say so.
  const waiting = {
    '3.4':
      'another etcd process is using "/db" and holds the file lock, or loading backend file is taking >10 seconds',
    '3.5': '"msg":"db file is flocked by another process, or taking too long"',
  };
  for (const [version, words] of Object.entries(waiting)) {
    it(`that waits for another etcd's lock is explained (${version})`, async () => {
      const { message } = await failure(pretender(`echo '${words}' >&2; exec sleep 100`), 0, 500);
      assert.ok(message.includes(`Another etcd seems to use ${join(folder, 'data')}`), message);
    });
  }
});

describe('flapd run --etcd-embedded', () => {
  let port: number;
  let child: ChildProcess;
  let log: string;

  async function start(): Promise<void> {
    log = '';
    const args = [
      ...['--etcd-embedded', join(folder, 'data'), '--etcd-embedded-port', String(port)],
      ...['--journal', 'memory', '--feed-socket', join(folder, 'feed.sock'), '--http', '127.0.0.1:0'],
      ...['--host', 'testhost', '--endpoints-from', 'feed', '--set', 'log.format=json'],
    ];
    // In a process group of its own, as a shell would start it at a terminal.
    child = spawn(process.execPath, [mainFile, 'run', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, FLAPD_ETCD: etcdBinary() },
      detached: true,
    });
    child.stderr!.on('data', (data: Buffer) => {
      log += data.toString('utf8');
    });
    await until('flapd to claim its host', () => {
      assert.equal(child.exitCode, null, log);
      return log.includes('claimed');
    });
  }

  async function end(signalIt: () => void): Promise<unknown> {
    const ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(code ?? signal)));
    signalIt();
    return ended;
  }

  beforeEach(async () => {
    port = await freePort();
  });
  afterEach(() => {
    if (child.exitCode === null) child.kill('SIGKILL');
  });

  it('ends in order on a Ctrl-C, which a terminal sends to every process of the group', async () => {
    await start();
    assert.equal(await end(() => process.kill(-child.pid!, 'SIGINT')), 0, log);
    assert.doesNotMatch(log, /ended by itself/);
    assert.match(log, /good-bye/);
    await assert.rejects(fetch(`http://127.0.0.1:${port}`));
  });

  it('leaves no etcd behind when it is killed: the next one gets the same port and the same data', async () => {
    await start();
    assert.equal(await end(() => child.kill('SIGKILL')), 'SIGKILL');
    await until('the port to be free', () =>
      fetch(`http://127.0.0.1:${port}`).then(
        () => false,
        () => true,
      ),
    );
    await start();
    assert.match(log, /"epoch":2/);
    assert.equal(await end(() => child.kill('SIGTERM')), 0, log);
  });
});

describe('the search for an etcd', () => {
  const saved = { FLAPD_ETCD: process.env.FLAPD_ETCD, PATH: process.env.PATH };
  before(() => {
    delete process.env.FLAPD_ETCD;
  });
  after(() => {
    Object.assign(process.env, saved);
    if (saved.FLAPD_ETCD === undefined) delete process.env.FLAPD_ETCD;
  });

  it('takes the one that FLAPD_ETCD names, and fails where that is none', () => {
    process.env.FLAPD_ETCD = pretender('exit 0');
    assert.equal(findEtcdBinary(), join(folder, 'etcd'));
    process.env.FLAPD_ETCD = join(folder, 'nothing-there');
    assert.throws(findEtcdBinary, /FLAPD_ETCD names .*nothing-there, which cannot be run/);
    delete process.env.FLAPD_ETCD;
  });

  it('takes the one on the PATH', () => {
    const binary = pretender('exit 0');
    process.env.PATH = `${folder}:${saved.PATH}`;
    assert.equal(findEtcdBinary(), binary);
    process.env.PATH = saved.PATH;
  });

  it('asks scripts/etcd where there is none on the PATH', () => {
    assert.match(execFileSync(findEtcdBinary(), ['--version'], { encoding: 'utf8' }), /etcd Version: 3\./);
  });
});
