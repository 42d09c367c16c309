import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { statusKey } from '../../../src/endpoints/key.js';
import { EndpointRegistry } from '../../../src/endpoints/registry.js';

const where = { host: 'h', region: null };
const a = { kind: 'host', endpoint: 'a' } as const;
const b = { kind: 'host', endpoint: 'b' } as const;

describe('the registry of endpoints', () => {
  it('gives each key one number, dense from 0, and tells of new ones before it returns', () => {
    const told: string[] = [];
    const registry = new EndpointRegistry(where, (endpoint, key) => told.push(`${endpoint} ${key}`));
    assert.deepEqual([registry.intern(a), registry.intern(b), registry.intern(a)], [0, 1, 0]);
    assert.equal(registry.internKey(statusKey(b, where)), 1);
    assert.deepEqual(told, [`0 ${statusKey(a, where)}`, `1 ${statusKey(b, where)}`]);
    assert.deepEqual([...registry.indexes()], [0, 1]);
  });

  it('takes numbers from the journal, and goes on above them', () => {
    const registry = new EndpointRegistry(where, () => undefined);
    assert.equal(registry.restore(7 as EndpointIndex, statusKey(a, where)), true);
    assert.equal(registry.restore(3 as EndpointIndex, '/calico/felix/v1/host/other/endpoint/x'), false);
    assert.equal(registry.intern(a), 7);
    assert.equal(registry.intern(b), 8);
    assert.equal(registry.has(3 as EndpointIndex), false);
    assert.deepEqual(registry.id(7 as EndpointIndex), a);
  });

  it('does not know keys of others, nor ones in a form that is not ours', () => {
    const registry = new EndpointRegistry(where, () => assert.fail('nothing is new'));
    assert.equal(registry.internKey('/calico/felix/v1/host/other/endpoint/x'), null);
    // %2F where we write %2f: it would be another key.
    assert.equal(registry.internKey('/calico/felix/v1/host/h/endpoint/a%2Fb'), null);
    // Whatever somebody put there, a listing must get past it.
    for (const part of ['a\nb', '', 'x'.repeat(2000), 'a\ufffd', 'a%41'])
      assert.equal(registry.internKey(`/calico/felix/v1/host/h/endpoint/${part}`), null, part);
  });
});

describe('a number that is free again', () => {
  it('goes to the next new endpoint', () => {
    const told: string[] = [];
    const registry = new EndpointRegistry(where, (endpoint, key) => told.push(`${endpoint} ${key}`));
    registry.intern(a);
    registry.intern(b);
    registry.forget(0 as EndpointIndex);
    assert.equal(registry.find(a), undefined);
    assert.equal(registry.has(0 as EndpointIndex), false);
    assert.equal(registry.intern({ kind: 'host', endpoint: 'c' }), 0);
    assert.equal(registry.intern(a), 2);
    assert.equal(registry.size, 3);
    assert.equal(told.length, 4);
  });
});
