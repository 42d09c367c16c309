import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { decodeAnswer } from '../../../src/etcd/answer.js';
import { DecodeError } from '../../../src/wire/protobuf.js';
import { encoded, TxnResponse } from '../../support/etcd-messages.js';

const header = { cluster_id: 1, member_id: 2, revision: 4_294_967_299, raft_term: 3 };
const found = (value: string, modRevision: number) => ({
  response_range: {
    header: { revision: 7 },
    kvs: [
      {
        key: Buffer.from('key'),
        create_revision: 1,
        mod_revision: modRevision,
        version: 3,
        value: Buffer.from(value),
      },
    ],
    count: 1,
  },
});
const absent = { response_range: { header: { revision: 7 } } };

describe("decoding etcd's answer", () => {
  it('says committed, with the revision', () => {
    const bytes = encoded(TxnResponse, {
      header,
      succeeded: true,
      responses: [{ response_put: { header: {} } }, { response_delete_range: { deleted: 1 } }],
    });
    assert.deepEqual(decodeAnswer(bytes), { kind: 'committed', revision: 4_294_967_299 });
  });

  it('says conflict, with what claim and cursor really hold', () => {
    const bytes = encoded(TxnResponse, { header, responses: [found('claim', 5), found('cursor', 6)] });
    assert.deepEqual(decodeAnswer(bytes), {
      kind: 'conflict',
      revision: 4_294_967_299,
      claim: new Uint8Array(Buffer.from('claim')),
      cursor: { value: new Uint8Array(Buffer.from('cursor')), modRevision: 6 },
    });
  });

  it('says null for keys that are not there', () => {
    const bytes = encoded(TxnResponse, { header, responses: [absent, absent] });
    const answer = decodeAnswer(bytes);
    assert.deepEqual(answer, { kind: 'conflict', revision: 4_294_967_299, claim: null, cursor: null });
  });

  it('keeps no view of the bytes it was given', () => {
    const bytes = encoded(TxnResponse, { header, responses: [found('claim', 5), found('cursor', 6)] });
    const answer = decodeAnswer(bytes);
    bytes.fill(0);
    assert.ok(answer.kind === 'conflict');
    assert.equal(Buffer.from(answer.claim!).toString(), 'claim');
    assert.equal(Buffer.from(answer.cursor!.value).toString(), 'cursor');
  });

  it('throws at bytes cut short', () => {
    const bytes = encoded(TxnResponse, { header, responses: [found('claim', 5)] });
    assert.throws(() => decodeAnswer(bytes.subarray(0, bytes.length - 3)), DecodeError);
  });
});
