import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Status } from '../../../src/endpoints/status.js';
import { TxnEncoder } from '../../../src/etcd/encoding.js';
import type { Txn } from '../../../src/reporter/effects.js';
import { decoded, TxnRequest } from '../../support/etcd-messages.js';

const keys = {
  claimKey: '/calico/flapd/v1/no-region/host/h/claim',
  cursorKey: (lane: number) => `/calico/flapd/v1/no-region/host/h/lane/${lane}`,
  statusKeyOf: (endpoint: EndpointIndex) => `/status/ü${endpoint}`,
};
const values = { up: '{"status":"up"}', down: '{"status":"down"}', error: '{"status":"error"}' };

function txn(parts: Partial<Txn> = {}): Txn {
  return {
    lane: 3,
    claim: Buffer.from('claim'),
    cursorBefore: Buffer.from('before'),
    cursorAfter: Buffer.from('after'),
    endpoints: [],
    statuses: [],
    seqs: [],
    ...parts,
  };
}

const key = (name: string) => Buffer.from(name);
const get = (name: string) => ({ request_range: { key: key(name) }, request: 'request_range' });

/** The same transaction as the library should read it. */
function expected({ lane, claim, cursorBefore, cursorAfter, endpoints, statuses }: Txn): object {
  const cursor = key(keys.cursorKey(lane));
  return {
    compare: [
      {
        target: 'VALUE',
        key: key(keys.claimKey),
        value: Buffer.from(claim),
        target_union: 'value',
      },
      cursorBefore === null
        ? { key: cursor, version: 0, target_union: 'version' }
        : { target: 'VALUE', key: cursor, value: Buffer.from(cursorBefore), target_union: 'value' },
    ],
    success: [
      ...endpoints.map((endpoint, i) => {
        const name = key(keys.statusKeyOf(endpoint));
        const status = (['removed', 'up', 'down', 'error'] as const)[statuses[i]!]!;
        return status === 'removed'
          ? { request_delete_range: { key: name }, request: 'request_delete_range' }
          : { request_put: { key: name, value: key(values[status]) }, request: 'request_put' };
      }),
      { request_put: { key: cursor, value: Buffer.from(cursorAfter) }, request: 'request_put' },
    ],
    failure: [get(keys.claimKey), get(keys.cursorKey(lane))],
  };
}

describe('encoding a transaction', () => {
  it('compares claim and cursor, puts and deletes statuses, puts the cursor, else gets both', () => {
    const request = txn({
      endpoints: [5, 9, 2, 7] as EndpointIndex[],
      statuses: [Status.up, Status.removed, Status.down, Status.error],
    });
    assert.deepEqual(decoded(TxnRequest, new TxnEncoder(keys).encode(request)), expected(request));
  });

  it('compares that the cursor does not exist where it did not', () => {
    const request = txn({ cursorBefore: null });
    assert.deepEqual(decoded(TxnRequest, new TxnEncoder(keys).encode(request)), expected(request));
  });

  it('reads the same to any protobuf library, whatever the transactions before it were', () => {
    const bytes = fc.uint8Array({ minLength: 1, maxLength: 300 });
    const anyTxn = fc
      .record({
        lane: fc.nat(7),
        claim: bytes,
        cursorBefore: fc.option(bytes),
        cursorAfter: bytes,
        operations: fc.uniqueArray(fc.tuple(fc.nat(300), fc.constantFrom(...Object.values(Status))), {
          selector: ([endpoint]) => endpoint,
          maxLength: 127,
        }),
      })
      .map(({ operations, ...rest }) =>
        txn({
          ...rest,
          endpoints: operations.map(([endpoint]) => endpoint as EndpointIndex),
          statuses: operations.map(([, status]) => status),
        }),
      );
    fc.assert(
      fc.property(fc.array(anyTxn, { minLength: 1, maxLength: 4 }), (txns) => {
        const encoder = new TxnEncoder(keys);
        for (const each of txns) {
          assert.deepEqual(decoded(TxnRequest, encoder.encode(each)), expected(each));
          encoder.forget((each.endpoints[0] ?? 0) as EndpointIndex);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('fills a buffer of its own and of just its size, so that it can go to another thread', () => {
    const request = new TxnEncoder(keys).encode(txn());
    assert.equal(request.byteLength, request.buffer.byteLength);
  });

  it('encodes an endpoint once, and again only after it was forgotten', () => {
    let asked = 0;
    const encoder = new TxnEncoder({ ...keys, statusKeyOf: () => `/asked/${asked++}` });
    const up = txn({ endpoints: [1 as EndpointIndex], statuses: [Status.up] });
    encoder.encode(up);
    encoder.encode(up);
    assert.equal(asked, 1);
    encoder.forget(1 as EndpointIndex);
    encoder.encode(up);
    assert.equal(asked, 2);
  });
});
