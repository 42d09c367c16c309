import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openEtcd } from '../../../src/etcd/client.js';
import type { EtcdConnection } from '../../../src/etcd/connection.js';
import { TxnTransport } from '../../../src/etcd/transport.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { until } from '../../support/waiting.js';
import { keys, request, summary, versions } from './fixture.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-auth-'));
after(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

const root = '--user=root:rootpw';
const ownPrefix = '/calico/flapd/v1/no-region/host/host1/';
const statusPrefix = '/calico/felix/v2/no-region/host/host1/workload/';

/** Users root and flapd; flapd may read and write its own keys, and write statuses. */
function enableAuth(etcd: Etcd): void {
  etcd.ctl('user', 'add', 'root:rootpw');
  etcd.ctl('user', 'grant-role', 'root', 'root');
  etcd.ctl('role', 'add', 'flapd-host1');
  etcd.ctl('role', 'grant-permission', 'flapd-host1', 'readwrite', ownPrefix, '--prefix=true');
  etcd.ctl('role', 'grant-permission', 'flapd-host1', 'write', statusPrefix, '--prefix=true');
  etcd.ctl('user', 'add', 'flapd:flapdpw');
  etcd.ctl('user', 'grant-role', 'flapd', 'flapd-host1');
  etcd.ctl('put', keys.claimKey, 'claim');
  etcd.ctl('auth', 'enable');
}

function connection(etcd: Etcd, user = 'flapd', password = 'flapdpw'): EtcdConnection {
  return { endpoints: [etcd.endpoint], user, passwordFile: file(`${user}-${password}`, `${password}\n`) };
}

/** How often etcd was asked for a token so far. */
async function authentications(etcd: Etcd): Promise<number> {
  const metrics = await (await fetch(`${etcd.endpoint}/metrics`)).text();
  return Number(/^grpc_server_started_total\{grpc_method="Authenticate".*\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

/** Each try has its own lane, so that what one did is not in the way of the next one. */
let lane = 0;
const fresh = () => request(null, 'x', { lane: lane++ });

async function committed(transport: TxnTransport, what: string): Promise<void> {
  let last = '';
  await until(`a transaction to be committed ${what}`, async () => {
    last = summary(await transport.txn(fresh()));
    return last === 'committed' ? last : null;
  }).catch((error: Error) => assert.fail(`${error.message}; last answer: ${last}`));
}

for (const version of versions) {
  describe(`etcd ${version} with authentication`, () => {
    let etcd: Etcd;
    before(async () => {
      etcd = await startEtcd({ version, args: ['--auth-token-ttl=2'] });
      enableAuth(etcd);
    });
    after(() => etcd.close());

    it('takes transactions of a user with the role that the documentation names', async () => {
      const transport = new TxnTransport(connection(etcd));
      assert.equal(summary(await transport.txn(fresh())), 'committed');
      transport.close();
    });

    it('refuses one without a user, and with a wrong password', async () => {
      const nobody = new TxnTransport({ endpoints: [etcd.endpoint] });
      assert.equal(summary(await nobody.txn(fresh())), 'unauthenticated');
      nobody.close();
      const wrong = new TxnTransport(connection(etcd, 'flapd', 'wrong'));
      assert.equal(summary(await wrong.txn(fresh())), 'unauthenticated');
      wrong.close();
    });

    it('is asked for a token once a second at most, however many transactions are refused', async () => {
      const wrong = new TxnTransport(connection(etcd, 'flapd', 'wrong'));
      const before = await authentications(etcd);
      const answers = await Promise.all(Array.from({ length: 50 }, () => wrong.txn(fresh())));
      const next = await wrong.txn(fresh());
      assert.deepEqual(new Set([...answers, next].map(summary)), new Set(['unauthenticated']));
      // Two where checking the password has taken a whole second.
      const asked = (await authentications(etcd)) - before;
      assert.ok(asked === 1 || asked === 2, `${asked} authentications`);
      wrong.close();
    });

    it('gives a new token where the old one has expired, or was forgotten with a restart', async () => {
      const transport = new TxnTransport(connection(etcd));
      await committed(transport, 'at first');
      await etcd.restart();
      await committed(transport, 'after a restart');
      transport.close();
    });

    it('denies what the role lacks, and takes it once it is granted', async () => {
      const transport = new TxnTransport(connection(etcd));
      await committed(transport, 'at first');
      etcd.ctl(root, 'role', 'revoke-permission', 'flapd-host1', statusPrefix, '--prefix=true');
      await until(
        'a transaction to be denied',
        async () => summary(await transport.txn(fresh())) === 'denied',
      );
      etcd.ctl(root, 'role', 'grant-permission', 'flapd-host1', 'write', statusPrefix, '--prefix=true');
      await committed(transport, 'after the grant');
      transport.close();
    });

    it('lets the etcd3 client in with the same settings', async () => {
      const client = openEtcd(connection(etcd));
      assert.equal(await client.get(keys.claimKey).string(), 'claim');
      client.close();
    });
  });

  describe(`etcd ${version} with JWT`, () => {
    it('takes transactions again after a change of roles', async () => {
      const key = join(folder, `jwt-${version}.pem`);
      const pub = `${key}.pub`;
      execFileSync('openssl', ['genrsa', '-out', key, '2048'], { stdio: 'ignore' });
      execFileSync('openssl', ['rsa', '-in', key, '-pubout', '-out', pub], { stdio: 'ignore' });
      const etcd = await startEtcd({
        version,
        args: [`--auth-token=jwt,pub-key=${pub},priv-key=${key},sign-method=RS256,ttl=10m`],
      });
      enableAuth(etcd);
      const transport = new TxnTransport(connection(etcd));
      await committed(transport, 'at first');
      etcd.ctl(root, 'role', 'add', 'another');
      assert.equal(summary(await transport.txn(fresh())), 'unauthenticated');
      await committed(transport, 'after a change of roles');
      transport.close();
      await etcd.close();
    });
  });

  describe(`etcd ${version} without authentication`, () => {
    it('takes transactions of a user all the same', async () => {
      const etcd = await startEtcd({ version });
      etcd.ctl('put', keys.claimKey, 'claim');
      const transport = new TxnTransport(connection(etcd));
      assert.equal(summary(await transport.txn(fresh())), 'committed');
      transport.close();
      await etcd.close();
    });
  });
}
