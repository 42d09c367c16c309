import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openEtcd } from '../../../src/etcd/client.js';
import { TxnTransport } from '../../../src/etcd/transport.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { request, summary } from './fixture.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-tls-'));
const path = (name: string) => join(folder, name);
const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });

function makeCa(name: string): void {
  openssl(
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
    '-subj',
    `/CN=${name}`,
    '-keyout',
    `${name}.key`,
    '-out',
    `${name}.pem`,
  );
}

function makeCertificate(name: string, ca: string): void {
  writeFileSync(path(`${name}.ext`), 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n');
  openssl(
    'req',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-subj',
    `/CN=${name}`,
    '-keyout',
    `${name}.key`,
    '-out',
    `${name}.csr`,
  );
  openssl(
    'x509',
    '-req',
    '-in',
    `${name}.csr`,
    '-CA',
    `${ca}.pem`,
    '-CAkey',
    `${ca}.key`,
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    `${name}.ext`,
    '-out',
    `${name}.pem`,
  );
}

describe('TLS to etcd', () => {
  let etcd: Etcd;
  before(async () => {
    makeCa('ca');
    makeCa('other-ca');
    makeCertificate('server', 'ca');
    makeCertificate('client', 'ca');
    makeCertificate('stranger', 'other-ca');
    etcd = await startEtcd({
      args: [
        `--cert-file=${path('server.pem')}`,
        `--key-file=${path('server.key')}`,
        `--trusted-ca-file=${path('ca.pem')}`,
        '--client-cert-auth=true',
      ],
    });
  });
  after(async () => {
    await etcd.close();
    rmSync(folder, { recursive: true });
  });

  const settings = (name: string, ca = 'ca') => ({
    endpoints: [etcd.endpoint.replace(/^http:/, 'https:')],
    caFile: path(`${ca}.pem`),
    certFile: path(`${name}.pem`),
    keyFile: path(`${name}.key`),
  });
  const tryTxn = async (name: string, ca?: string): Promise<string> => {
    const transport = new TxnTransport(settings(name, ca));
    const answer = await transport.txn(request(null, 'x'));
    transport.close();
    return summary(answer);
  };

  it('lets in who has a certificate of the right authority', async () => {
    // No claim is there: an answer is what counts.
    assert.equal(await tryTxn('client'), 'conflict');
    const client = openEtcd(settings('client'));
    assert.equal(await client.get('nothing').string(), null);
    client.close();
  });

  it('is unavailable to who has a certificate of another one', async () => {
    assert.equal(await tryTxn('stranger'), 'unclear unavailable');
  });

  it('is unavailable where the server is not who it should be', async () => {
    const transport = new TxnTransport(settings('client', 'other-ca'));
    const answer = await transport.txn(request(null, 'x'));
    transport.close();
    assert.equal(summary(answer), 'unclear unavailable');
    assert.ok(answer.kind === 'unclear');
    assert.match(answer.message, /certificate|self.signed/i);
  });
});
