import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { type EtcdConnection, openConnection } from '../../../src/etcd/connection.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-connection-'));
after(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};
const missing = join(folder, 'missing.pem');

describe('the settings of the connection to etcd', () => {
  it('takes endpoints as people write them', () => {
    const endpoints = ['http://10.0.0.1:2379/', 'http://etcd.example', ' HTTP://[::1]:2380'];
    assert.deepEqual(openConnection({ endpoints }).targets, [
      '10.0.0.1:2379',
      'etcd.example:2379',
      '[::1]:2380',
    ]);
  });

  const refused: [name: string, connection: EtcdConnection, code: string, message: RegExp][] = [
    ['no endpoint', { endpoints: [] }, 'ETCD_ENDPOINT_INVALID', /no etcd endpoint is set/],
    [
      'an endpoint without a scheme',
      { endpoints: ['10.0.0.1:2379'] },
      'ETCD_ENDPOINT_INVALID',
      /"10.0.0.1:2379"/,
    ],
    ['an endpoint with a path', { endpoints: ['http://h/v3'] }, 'ETCD_ENDPOINT_INVALID', /not of the form/],
    ['a port that is none', { endpoints: ['http://h:70000'] }, 'ETCD_ENDPOINT_INVALID', /not of the form/],
    ['both schemes', { endpoints: ['http://a', 'https://b'] }, 'ETCD_ENDPOINT_INVALID', /one scheme for all/],
    [
      'a CA file that is not there',
      { endpoints: ['https://h'], caFile: missing },
      'ETCD_FILE_UNREADABLE',
      /CA certificate from .*missing\.pem: ENOENT; correct the path/,
    ],
    [
      'a CA file that is a folder',
      { endpoints: ['https://h'], caFile: folder },
      'ETCD_FILE_UNREADABLE',
      /EISDIR; check the path/,
    ],
    [
      'a certificate without its key',
      { endpoints: ['https://h'], certFile: missing },
      'ETCD_CREDENTIALS_INCOMPLETE',
      /certificate is set without its key/,
    ],
    [
      'a user without a password',
      { endpoints: ['http://h'], user: 'flapd' },
      'ETCD_CREDENTIALS_INCOMPLETE',
      /user is set without a password file/,
    ],
  ];
  for (const [name, connection, code, message] of refused) {
    it(`refuses ${name}`, () => {
      assert.throws(
        () => openConnection(connection),
        (error: Error & { code?: string }) => {
          assert.equal(error.code, code);
          assert.match(error.message, message);
          return true;
        },
      );
    });
  }

  it('reads files at each opening, so that rotated ones are picked up', () => {
    const passwordFile = file('password', 'first\n');
    const connection = { endpoints: ['http://h'], user: 'flapd', passwordFile };
    assert.deepEqual(openConnection(connection).auth, { name: 'flapd', password: 'first' });
    file('password', 'second');
    assert.deepEqual(openConnection(connection).auth, { name: 'flapd', password: 'second' });
  });

  it('does not read certificates for plain http', () => {
    assert.equal(openConnection({ endpoints: ['http://h'], caFile: missing }).tls, null);
  });
});
