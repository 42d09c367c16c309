import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { redact, withoutCredentials } from '../../../src/config/redact.js';

const secret = 'hunter2';

describe('a password in a URL is not shown', () => {
  const cases = [
    `http://user:${secret}@etcd:2379`,
    `http://user:${secret}/more@etcd:2379`,
    `http://user:more@${secret}@etcd:2379`,
    `http://user:a,${secret}@etcd:2379`,
    `http://user:a//${secret}@etcd:2379`,
    `http://etcd1:2379,https://user:${secret}@etcd2:2379`,
    `user:${secret}@etcd:2379`,
    `http://${secret}@etcd`,
    `http://etcd:2379/?token=${secret}&x=1`,
    `http://etcd:2379/?a=b&password=${secret}`,
  ];
  for (const text of cases)
    test(text, () => {
      for (const value of [text, [text], ['http://other:1', text], new Map([['a', text]])])
        assert.doesNotMatch(redact('etcd.endpoints', value), new RegExp(secret));
    });

  test('but the server is', () => {
    assert.equal(withoutCredentials(`http://user:${secret}@etcd:2379`), 'http://(redacted)@etcd:2379');
  });
});

test('the value of a setting that is a secret by its name is not shown, that of a file is', () => {
  assert.equal(redact('etcd.password', secret), '(redacted)');
  assert.equal(redact('someToken', secret), '(redacted)');
  assert.equal(redact('etcd.passwordFile', '/etc/flapd/password'), '"/etc/flapd/password"');
});

test('a value is shown on one line, in quotes, with nothing that moves a cursor, and not for ever', () => {
  assert.equal(redact('host', 'a\nb\u001b[2J\u009b"\u2028'), '"a\\nb\\u001b[2J\\u009b\\"\\u2028"');
  assert.ok(redact('host', 'x'.repeat(1000)).length < 300);
});

test('lists and maps are shown as such', () => {
  assert.equal(redact('lanes', ['1', '2']), JSON.stringify('["1","2"]'));
  assert.equal(redact('lanes', new Map([['a', '1']])), JSON.stringify('{"a":"1"}'));
});
