import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openEtcd } from '../../../src/etcd/client.js';
import { TxnTransport } from '../../../src/etcd/transport.js';
import { Certificates } from '../../support/certificates.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { request, summary } from './fixture.js';

const certificates = new Certificates();
const path = (name: string) => certificates.path(name);

describe('TLS to etcd', () => {
  let etcd: Etcd;
  before(async () => {
    certificates.authority('ca');
    certificates.authority('other-ca');
    certificates.certificate('server', 'ca');
    certificates.certificate('client', 'ca');
    certificates.certificate('stranger', 'other-ca');
    etcd = await startEtcd({ args: certificates.etcdArgs('server', 'ca') });
  });
  after(async () => {
    await etcd.close();
    certificates.remove();
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
