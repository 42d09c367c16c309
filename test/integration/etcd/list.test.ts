import assert from 'node:assert/strict';
import { after, before, describe, it, mock } from 'node:test';
import type { Etcd3 } from 'etcd3';
import { openEtcd } from '../../../src/etcd/client.js';
import { listPrefix } from '../../../src/etcd/list.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';

describe('listing a prefix', () => {
  let etcd: Etcd;
  let client: Etcd3;
  before(async () => {
    etcd = await startEtcd();
    client = openEtcd({ endpoints: [etcd.endpoint] });
    for (let i = 0; i < 25; i++) await client.put(`/list/${String(i).padStart(2, '0')}`).value(`v${i}`);
    await client.put('/lisT').value('before it');
    await client.put('/list0').value('after it');
  });
  after(async () => {
    client.close();
    await etcd.close();
  });

  for (const pageSize of [1, 7, 25, 1000]) {
    it(`gives just its keys, in order, in pages of ${pageSize}`, async () => {
      const { revision, keys } = await listPrefix(client, '/list/', { pageSize });
      assert.deepEqual(
        keys.map(({ key, value }) => [key, value.toString()]),
        Array.from({ length: 25 }, (_, i) => [`/list/${String(i).padStart(2, '0')}`, `v${i}`]),
      );
      assert.equal(keys.at(-1)!.modRevision, revision - 2);
    });
  }

  it('gives nothing for a prefix of no key', async () => {
    assert.deepEqual((await listPrefix(client, '/nothing/')).keys, []);
  });

  it('shows one moment, whatever changes between its pages', async () => {
    const range = mock.method(client.kv, 'range');
    let pages = 0;
    range.mock.mockImplementation(async (...args: Parameters<Etcd3['kv']['range']>) => {
      if (pages++ === 1) etcd.ctl('del', '/list/20');
      return original(...args);
    });
    const { keys } = await listPrefix(client, '/list/', { pageSize: 10 });
    range.mock.restore();
    etcd.ctl('put', '/list/20', 'v20');
    assert.ok(keys.some(({ key }) => key === '/list/20'));
  });

  it('starts again where its moment was compacted away between two pages', async () => {
    const range = mock.method(client.kv, 'range');
    let pages = 0;
    range.mock.mockImplementation(async (...args: Parameters<Etcd3['kv']['range']>) => {
      if (pages++ === 1) {
        await client.put('/list/20').value('newer');
        const { header } = await client.put('/list/20').value('newest');
        await client.kv.compact({ revision: header.revision });
      }
      return original(...args);
    });
    const { keys } = await listPrefix(client, '/list/', { pageSize: 10 });
    range.mock.restore();
    assert.equal(keys.find(({ key }) => key === '/list/20')!.value.toString(), 'newest');
    assert.equal(pages, 2 + 3);
  });

  it('rejects where etcd is gone', async () => {
    const nobody = openEtcd({ endpoints: ['http://127.0.0.1:1'] });
    await assert.rejects(listPrefix(nobody, '/list/'), /UNAVAILABLE/);
    nobody.close();
  });

  const original = (...args: Parameters<Etcd3['kv']['range']>) =>
    Object.getPrototypeOf(client.kv).range.apply(client.kv, args);
});
