import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { StatusLine } from '../../../src/cli/status-line.js';
import { type Running, startFlapd } from '../../support/command.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { until } from '../../support/waiting.js';

const key = (host: string, port: string): string =>
  `/calico/felix/v2/no-region/host/${host}/workload/openstack/openstack%2fvm/endpoint/${port}`;

let etcd: Etcd;
before(async () => {
  etcd = await startEtcd();
});
after(() => etcd.close());

async function watching(args: readonly string[], use: (running: Running) => Promise<void>): Promise<void> {
  const running = startFlapd(['watch', '--etcd', etcd.endpoint, ...args]);
  try {
    await use(running);
  } finally {
    running.child.kill('SIGKILL');
    await running.ended;
  }
}

function linesOf(running: Running): StatusLine[] {
  return running
    .stdout()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as StatusLine);
}

/** Waits for that many lines. */
async function lines(running: Running, count: number): Promise<StatusLine[]> {
  await until(`${count} lines (stderr: ${running.stderr()})`, () => {
    const seen = running.stdout().split('\n').length - 1;
    return seen >= count ? seen : null;
  });
  return linesOf(running);
}

describe('flapd watch', () => {
  test('prints what is there, then what happens, across a restart of etcd, until Ctrl-C', async () => {
    etcd.ctl('put', key('a', 'p1'), '{"status":"up"}');
    etcd.ctl('put', '/calico/felix/v1/host/a/endpoint/eth0', '{"status":"down"}');
    etcd.ctl('put', '/calico/felix/v2/no-region/host/a/status', '{"uptime":1}');
    await watching(['--json'], async (running) => {
      const initial = await lines(running, 2);
      assert.deepEqual(
        initial.map(({ endpoint, status, initial }) => [endpoint, status, initial]),
        [
          ['openstack/openstack%2fvm/p1', 'up', true],
          ['eth0', 'down', true],
        ],
      );
      etcd.ctl('put', key('a', 'p1'), '{"status":"down"}');
      etcd.ctl('put', key('a', 'p1'), 'rubbish');
      await lines(running, 4);
      await etcd.restart();
      etcd.ctl('del', key('a', 'p1'));
      const after = (await lines(running, 5)).slice(2);
      assert.deepEqual(
        after.map(({ status, value, initial }) => [status, value, initial]),
        [
          ['down', undefined, false],
          ['unreadable', 'rubbish', false],
          ['removed', undefined, false],
        ],
      );
      const revisions = after.map(({ revision }) => revision);
      assert.deepEqual(
        revisions,
        [...revisions].sort((one, other) => one - other),
      );
      assert.match(running.stderr(), /^flapd: etcd is away \(.*\); trying again$/m);
      await until('it to say that etcd is back', () => /etcd is back after/.test(running.stderr()));
      assert.equal(running.stderr().match(/etcd is away/g)!.length, 1);
      running.child.kill('SIGINT');
      assert.equal((await running.ended).code, 0);
    });
  });

  test('--no-initial begins with what happens, --only-host leaves others out', async () => {
    etcd.ctl('put', key('b', 'p1'), '{"status":"up"}');
    await watching(['--json', '--no-initial', '--only-host', '--host', 'b'], async (running) => {
      // Until one of them is seen, since it does not say when it begins.
      await until('a change to be seen', () => {
        etcd.ctl('put', key('c', 'p1'), '{"status":"up"}');
        etcd.ctl('put', key('b', 'p2'), '{"status":"up"}');
        return running.stdout() !== '';
      });
      for (const { host, endpoint, initial } of linesOf(running))
        assert.deepEqual([host, endpoint, initial], ['b', 'openstack/openstack%2fvm/p2', false]);
    });
  });

  test('--from-revision tells the history from there on', async () => {
    const put = JSON.parse(etcd.ctl('put', key('d', 'p1'), '{"status":"up"}', '-w', 'json')) as {
      header: { revision: number };
    };
    const { revision } = put.header;
    etcd.ctl('put', key('d', 'p1'), '{"status":"down"}');
    etcd.ctl('del', key('d', 'p1'));
    await watching(['--json', '--from-revision', String(revision)], async (running) => {
      assert.deepEqual(
        (await lines(running, 3)).map((line) => [line.revision, line.status]),
        [
          [revision, 'up'],
          [revision + 1, 'down'],
          [revision + 2, 'removed'],
        ],
      );
    });
  });

  test('says that a part of the history is gone, and goes on after it', async () => {
    const put = JSON.parse(etcd.ctl('put', key('e', 'p1'), '{"status":"up"}', '-w', 'json')) as {
      header: { revision: number };
    };
    const { revision } = put.header;
    etcd.ctl('put', key('e', 'p1'), '{"status":"down"}');
    etcd.ctl('compact', String(revision + 1));
    await watching(['--json', '--from-revision', '1'], async (running) => {
      await until('the gap to be told', () => /is no longer in etcd's history/.test(running.stderr()));
      etcd.ctl('put', key('e', 'p1'), '{"status":"up"}');
      const seen = await lines(running, 1);
      assert.equal(seen.at(-1)!.status, 'up');
      assert.equal(seen.at(-1)!.revision, revision + 2);
    });
  });

  test('ends quietly when nobody reads any more', async () => {
    await watching(['--no-initial'], async (running) => {
      running.child.stdout!.destroy();
      await until('it to end', () => {
        etcd.ctl('put', key('f', 'p1'), '{"status":"up"}');
        return running.child.exitCode !== null;
      });
      assert.deepEqual([running.child.exitCode, running.stderr()], [0, '']);
    });
  });
});
