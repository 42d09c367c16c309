/** Tokens that expire, are forgotten, or are of an old revision, in a storm (faults 19 and 20). */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { Course } from '../support/course.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { until } from '../support/waiting.js';

const root = '--user=root:root';
const prefixes = [
  '/calico/felix/v2/no-region/host/testhost/workload/',
  '/calico/felix/v1/host/testhost/endpoint/',
  '/calico/flapd/v1/no-region/host/testhost/',
];

function enableAuth(etcd: Etcd): void {
  for (const words of [
    ['user', 'add', 'root:root'],
    ['user', 'grant-role', 'root', 'root'],
    ['role', 'add', 'flapd'],
    ...prefixes.map((prefix) => ['role', 'grant-permission', 'flapd', 'readwrite', prefix, '--prefix=true']),
    ['user', 'add', 'flapd:secret'],
    ['user', 'grant-role', 'flapd', 'flapd'],
    ['auth', 'enable'],
  ])
    etcd.ctl(...words);
}

/** How often etcd was asked for a token so far. */
async function authentications(etcd: Etcd): Promise<number> {
  const metrics = await (await fetch(`${etcd.endpoint}/metrics`)).text();
  return Number(/^grpc_server_started_total\{grpc_method="Authenticate".*\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

describe('an etcd with authentication, in a storm', () => {
  let folder: string;
  let etcd: Etcd;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    writeFileSync(join(folder, 'flapd'), 'secret\n');
    writeFileSync(join(folder, 'root'), 'root\n');
  });
  after(() => rmSync(folder, { recursive: true, force: true }));
  afterEach(async () => {
    await Course.closeAll();
    await etcd.close();
  });

  const start = async (...args: string[]): Promise<Course> => {
    etcd = await startEtcd({ args });
    enableAuth(etcd);
    return Course.start(
      { endpoints: [etcd.endpoint], user: 'root', passwordFile: join(folder, 'root') },
      { args: ['--set=etcd.user=flapd', `--set=etcd.passwordFile=${join(folder, 'flapd')}`] },
    );
  };
  const seconds = async (count: number): Promise<void> => {
    const beganAtMs = performance.now();
    await until(`${count} seconds`, () => performance.now() - beganAtMs > count * 1000, {
      deadlineMs: count * 1000 + 5000,
      everyMs: 50,
    });
  };

  it('whose simple tokens are good for two seconds: new ones are asked for, not too often, and all is there once', async () => {
    const course = await start('--auth-token-ttl=2');
    const before = await authentications(etcd);
    for (let round = 0; round < 2; round++) {
      await course.flap(20);
      await course.verify();
      await seconds(4); // a token is good for its time to live after its last use
    }
    const asked = (await authentications(etcd)) - before;
    assert.ok(asked >= 2 && asked <= 20, `${asked} authentications`);
    await course.end();
  });

  it('that is killed and started again, and has forgotten all tokens', async () => {
    const course = await start();
    await course.during(async () => {
      for (let round = 0; round < 2; round++) {
        await etcd.restart();
        const committed = await course.flapd.metric('flapd_transitions_committed_total');
        await until(
          'commits to go on',
          async () => (await course.flapd.metric('flapd_transitions_committed_total')) > committed,
          { deadlineMs: 15_000 },
        );
      }
    });
    await course.end();
  });

  it('with JWT, whose roles change again and again', async () => {
    const key = join(folder, 'jwt');
    execFileSync('openssl', ['genrsa', '-out', key, '2048'], { stdio: 'ignore' });
    execFileSync('openssl', ['rsa', '-in', key, '-pubout', '-out', `${key}.pub`], { stdio: 'ignore' });
    const course = await start(
      `--auth-token=jwt,pub-key=${key}.pub,priv-key=${key},sign-method=RS256,ttl=10m`,
    );
    await course.during(async () => {
      for (let round = 0; round < 4; round++) {
        etcd.ctl(root, 'role', 'add', `another${round}`);
        const committed = await course.flapd.metric('flapd_transitions_committed_total');
        await until(
          'commits to go on',
          async () => (await course.flapd.metric('flapd_transitions_committed_total')) > committed,
          { deadlineMs: 5000 },
        );
      }
    });
    await course.end();
  });
});
