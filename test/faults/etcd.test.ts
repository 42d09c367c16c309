import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { Course } from '../support/course.js';
import { type Etcd, type EtcdVersion, startCluster, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, keyOf, vm } from '../support/host.js';
import { startProxy } from '../support/proxy.js';
import { until } from '../support/waiting.js';

const { up, down } = Status;
for (const version of ['3.4', '3.5'] as const satisfies readonly EtcdVersion[]) {
  describe(`faults of etcd ${version}`, () => {
    const withEtcd = async (args: string[], test: (etcd: Etcd) => Promise<void>): Promise<void> => {
      const etcd = await startEtcd({ version, args });
      try {
        await test(etcd);
      } finally {
        await etcd.close();
      }
    };

    it('answers that are lost on their way are recovered, and written once', () =>
      withEtcd([], async (etcd) => {
        const proxy = await startProxy(etcd.endpoint);
        const course = await Course.start(etcd.endpoint, { through: proxy.endpoint });
        await course.flap(2);
        await course.verify();
        // A cut may hit an answer of a watch or a list instead.
        await until(
          'three lost answers to be recovered',
          async () => {
            proxy.cutReplies(1);
            await course.flap(3);
            await course.verify();
            return (await course.flapd.metric('flapd_recovered_commits_total')) >= 3;
          },
          { deadlineMs: 60_000 },
        );
        await course.end();
        await proxy.close();
      }));

    it('killed and started again five times, it has everything once', () =>
      withEtcd([], async (etcd) => {
        const course = await Course.start(etcd.endpoint);
        for (let round = 0; round < 5; round++) {
          await course.flap(10);
          etcd.kill('SIGKILL');
          await course.flap(10);
          await etcd.restart();
        }
        await course.end();
      }));

    it('frozen for ten seconds, it has everything once', () =>
      withEtcd([], async (etcd) => {
        const course = await Course.start(etcd.endpoint);
        await course.flap(10);
        etcd.kill('SIGSTOP');
        const frozenAtMs = performance.now();
        await course.flap(10);
        await until('flapd to be not ready', async () => !(await course.flapd.get('/readyz')).ready);
        await until('ten seconds', () => performance.now() - frozenAtMs > 10_000, {
          deadlineMs: 20_000,
          everyMs: 100,
        });
        etcd.kill('SIGCONT');
        await course.end();
      }));

    it('with room for eight operations in a transaction, it has everything once', () =>
      withEtcd(['--max-txn-ops=8'], async (etcd) => {
        const course = await Course.start(etcd.endpoint, { endpoints: 60 });
        await course.flap(10);
        await until('a batch to be halved', () =>
          course.flapd.metric('flapd_txn_retries_total{reason="tooLarge"}'),
        );
        await course.end();
      }));

    it('with room for eight operations from a restart on, it has everything once', () =>
      withEtcd([], async (etcd) => {
        const course = await Course.start(etcd.endpoint, { endpoints: 60 });
        await course.flap(10);
        etcd.kill('SIGKILL');
        await course.flap(10);
        await etcd.restart({ args: ['--max-txn-ops=8'] });
        await course.end();
      }));

    it('that takes small requests only has everything once', () =>
      withEtcd(['--max-request-bytes=2048'], async (etcd) => {
        const course = await Course.start(etcd.endpoint, { endpoints: 60 });
        await course.flap(10);
        await course.end();
      }));

    it('without space, and with it again, has everything once', () =>
      withEtcd(['--quota-backend-bytes=200000'], async (etcd) => {
        const course = await Course.start(etcd.endpoint);
        await course.flap(2);
        await course.verify();
        const filler = 'x'.repeat(50_000);
        await until('etcd to be full', () => {
          try {
            etcd.ctl('put', '/filler', filler);
            return false;
          } catch (error) {
            return /space exceeded/.test(String(error));
          }
        });
        await course.flap(10);
        await until('flapd to notice', () =>
          course.flapd.metric('flapd_txn_retries_total{reason="noSpace"}'),
        );
        // The oracle follows the history as it is made: what is compacted here it has seen.
        const { header } = JSON.parse(etcd.ctl('get', '/filler', '--keys-only', '-w', 'json')) as {
          header: { revision: number };
        };
        etcd.ctl('del', '/filler');
        etcd.ctl('compact', String(header.revision));
        etcd.ctl('defrag');
        etcd.ctl('alarm', 'disarm');
        await course.end();
      }));
  });
}

describe('faults of an etcd cluster', () => {
  it('the leader killed, moved and killed again: everything is there once', async () => {
    const members = await startCluster(3);
    const endpoints = members.map(({ endpoint }) => endpoint).join(',');
    const leader = (): Etcd =>
      members.find((member) => {
        const [status] = JSON.parse(member.ctl('endpoint', 'status', '-w', 'json')) as {
          Status: { header: { member_id: number }; leader: number };
        }[];
        return status!.Status.header.member_id === status!.Status.leader;
      })!;
    const idOf = (member: Etcd): string =>
      member.ctl('endpoint', 'status', '-w', 'fields').match(/"MemberID" : (\d+)/)![1]!;
    const course = await Course.start(endpoints.split(',')[0]!, { through: endpoints });
    await course.flap(10);
    for (let round = 0; round < 3; round++) {
      const first = leader();
      const other = members.find((member) => member !== first)!;
      first.ctl('move-leader', BigInt(idOf(other)).toString(16));
      await course.flap(10);
      const second = leader();
      second.kill('SIGKILL');
      await course.flap(10);
      await second.restart();
    }
    await course.end();
    await Promise.all(members.map((member) => member.close()));
  });

  it('without a majority nothing is written, and everything once when there is one again', async () => {
    const members = await startCluster(3);
    const endpoints = members.map(({ endpoint }) => endpoint).join(',');
    const course = await Course.start(endpoints.split(',')[0]!, { through: endpoints });
    await course.flap(10);
    await course.verify();
    members[1]!.kill('SIGSTOP');
    members[2]!.kill('SIGSTOP');
    await course.flap(10);
    await until('flapd to be not ready', async () => !(await course.flapd.get('/readyz')).ready, {
      deadlineMs: 20_000,
    });
    members[1]!.kill('SIGCONT');
    members[2]!.kill('SIGCONT');
    await course.end();
    await Promise.all(members.map((member) => member.close()));
  });
});

describe('an etcd that is not what it was', () => {
  const finalStatuses = async (etcd: Etcd, statuses: ReadonlyMap<number, Status>): Promise<void> => {
    for (const [n, status] of statuses) {
      const expected = `{"status":"${status === up ? 'up' : 'down'}"}`;
      await until(
        `${keyOf(n)} to be ${expected}`,
        () => etcd.ctl('get', '--print-value-only', keyOf(n)).trim() === expected,
        { deadlineMs: 30_000 },
      );
    }
  };

  for (const what of ['emptied', 'restored from a snapshot'] as const) {
    it(`${what}: it is claimed again, and every final status is there`, async () => {
      const folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
      const etcd = await startEtcd();
      const flapd = await Flapd.start({
        etcd: etcd.endpoint,
        args: ['--endpoints-from=feed', `--journal=${join(folder, 'journal')}`, '--set=resync.interval=2s'],
      });
      await flapd.says('the feed socket is open');
      const feeder = await Feeder.connect(flapd.feedSocket);
      for (let n = 0; n < 5; n++) feeder.send(vm(n), up);
      await feeder.acknowledged();
      await finalStatuses(etcd, new Map(Array.from({ length: 5 }, (_, n) => [n, up])));
      const snapshot = join(folder, 'snapshot');
      etcd.ctl('snapshot', 'save', snapshot);
      for (let n = 3; n < 8; n++) feeder.send(vm(n), n < 5 ? down : up);
      await feeder.acknowledged();
      const final = new Map(Array.from({ length: 8 }, (_, n) => [n, n < 3 || n > 4 ? up : down] as const));
      await finalStatuses(etcd, final);
      const { port } = etcd;
      await etcd.close();
      const again = await startEtcd(what === 'emptied' ? { port } : { port, snapshot });
      await finalStatuses(again, final);
      await flapd.says('etcd was set back or emptied');
      feeder.send(vm(0), down);
      await feeder.acknowledged();
      await finalStatuses(again, new Map([...final, [0, down]]));
      assert.equal(await flapd.stop(), 0, flapd.words);
      await again.close();
      rmSync(folder, { recursive: true, force: true });
    });
  }
});

describe('an etcd that refuses', () => {
  it('a role that lost a permission and got it back: not ready, says which, then everything is there once', async () => {
    const etcd = await startEtcd();
    const folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    const password = join(folder, 'password');
    const { writeFileSync } = await import('node:fs');
    writeFileSync(password, 'secret\n');
    const statuses = [
      '/calico/felix/v2/no-region/host/testhost/workload/',
      '/calico/felix/v1/host/testhost/endpoint/',
    ];
    const own = '/calico/flapd/v1/no-region/host/testhost/';
    for (const words of [
      ['user', 'add', 'root:root'],
      ['user', 'grant-role', 'root', 'root'],
      ['role', 'add', 'flapd'],
      ...[...statuses, own].map((prefix) => [
        'role',
        'grant-permission',
        'flapd',
        'readwrite',
        prefix,
        '--prefix=true',
      ]),
      ['user', 'add', 'flapd:secret'],
      ['user', 'grant-role', 'flapd', 'flapd'],
      ['auth', 'enable'],
    ]) {
      etcd.ctl(...words);
    }
    const root = '--user=root:root';
    const flapd = await Flapd.start({
      etcd: etcd.endpoint,
      args: [
        '--endpoints-from=feed',
        '--journal=memory',
        '--set=limits.endpointDelay=0',
        '--set=reader.confirm=false',
        '--set=etcd.user=flapd',
        `--set=etcd.passwordFile=${password}`,
      ],
    });
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    const versions = (): number =>
      Number(/"Version" : (\d+)/.exec(etcd.ctl(root, 'get', keyOf(1), '-w', 'fields'))?.[1] ?? 0);
    for (const status of [up, down, up]) feeder.send(vm(1), status);
    await feeder.acknowledged();
    await until('three revisions', () => versions() === 3);
    etcd.ctl(root, 'role', 'revoke-permission', 'flapd', statuses[0]!, '--prefix=true');
    for (const status of [down, up]) feeder.send(vm(1), status);
    await feeder.acknowledged();
    await until('flapd to say what it lacks', async () =>
      /permission/.test((await flapd.get('/readyz')).reasons.join()),
    );
    assert.equal((await flapd.get('/readyz')).ready, false);
    etcd.ctl(root, 'role', 'grant-permission', 'flapd', 'readwrite', statuses[0]!, '--prefix=true');
    await until('five revisions', () => versions() === 5, { deadlineMs: 45_000 });
    await flapd.ready();
    assert.equal(await flapd.stop(), 0, flapd.words);
    await etcd.close();
    rmSync(folder, { recursive: true, force: true });
  });
});
