import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { classify } from '../../../src/etcd/classify.js';

const table: [code: number, name: string, text: string, expected: string][] = [
  [8, 'RESOURCE_EXHAUSTED', 'etcdserver: mvcc: database space exceeded', 'unclear noSpace'],
  [8, 'RESOURCE_EXHAUSTED', 'etcdserver: too many requests', 'overloaded'],
  [8, 'RESOURCE_EXHAUSTED', 'grpc: received message larger than max (4194338 vs. 2097152)', 'tooLarge bytes'],
  [3, 'INVALID_ARGUMENT', 'etcdserver: request is too large', 'tooLarge bytes'],
  [3, 'INVALID_ARGUMENT', 'etcdserver: too many operations in txn request', 'tooLarge ops'],
  [3, 'INVALID_ARGUMENT', 'etcdserver: duplicate key given in txn request', 'invalid'],
  [3, 'INVALID_ARGUMENT', 'etcdserver: key is not provided', 'invalid'],
  [3, 'INVALID_ARGUMENT', 'etcdserver: revision of auth store is old', 'unauthenticated'],
  [3, 'INVALID_ARGUMENT', 'etcdserver: user name is empty', 'unauthenticated'],
  [
    3,
    'INVALID_ARGUMENT',
    'etcdserver: authentication failed, invalid user ID or password',
    'unauthenticated',
  ],
  [9, 'FAILED_PRECONDITION', 'etcdserver: user name not found', 'unauthenticated'],
  [16, 'UNAUTHENTICATED', 'etcdserver: invalid auth token', 'unauthenticated'],
  [16, 'UNAUTHENTICATED', 'something new', 'unauthenticated'],
  [7, 'PERMISSION_DENIED', 'etcdserver: permission denied', 'denied'],
  [14, 'UNAVAILABLE', 'etcdserver: request timed out', 'unclear timeout'],
  [
    14,
    'UNAVAILABLE',
    'etcdserver: request timed out, possibly due to previous leader failure',
    'unclear leaderChanged',
  ],
  [14, 'UNAVAILABLE', 'etcdserver: leader changed', 'unclear leaderChanged'],
  [14, 'UNAVAILABLE', 'etcdserver: no leader', 'unclear leaderChanged'],
  [9, 'FAILED_PRECONDITION', 'etcdserver: not leader', 'unclear leaderChanged'],
  [14, 'UNAVAILABLE', 'etcdserver: server stopped', 'unclear unavailable'],
  [14, 'UNAVAILABLE', 'No connection established. Last error: connect ECONNREFUSED', 'unclear unavailable'],
  [1, 'CANCELLED', 'Cancelled on client', 'unclear unavailable'],
  [4, 'DEADLINE_EXCEEDED', 'Deadline exceeded after 2.001s', 'unclear timeout'],
  [13, 'INTERNAL', 'Received RST_STREAM with code 2', 'unclear other'],
  [2, 'UNKNOWN', 'whatever', 'unclear other'],
];

function summary(error: unknown): string {
  const answer = classify(error);
  if (answer.kind === 'unclear') return `unclear ${answer.reason}`;
  return answer.kind === 'tooLarge' ? `tooLarge ${answer.limit}` : answer.kind;
}

describe('classifying what went wrong', () => {
  for (const [code, name, text, expected] of table) {
    it(`${name}, "${text}" is ${expected}`, () => {
      const message = `${code} ${name}: ${text}`;
      assert.equal(summary(Object.assign(new Error(message), { code, details: text })), expected);
    });

    it(`the same from etcd3, which loses the code, is ${expected}`, () => {
      assert.equal(summary(new Error(`${code} ${name}: ${text}`)), expected);
    });
  }

  it('takes what is no gRPC error for unclear', () => {
    assert.equal(summary(new TypeError('a bug')), 'unclear other');
    assert.equal(summary('a string'), 'unclear other');
    assert.equal(summary(null), 'unclear other');
  });

  it('keeps the message', () => {
    assert.equal(classify(new Error('14 UNAVAILABLE: gone')).message, '14 UNAVAILABLE: gone');
  });
});
