import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { EndpointId } from '../../../src/endpoints/id.js';
import {
  claimKey,
  cursorKey,
  hostProblem,
  laneOf,
  parseStatusKey,
  parseStatusValue,
  regionProblem,
  statusKey,
  statusValue,
  type Where,
} from '../../../src/endpoints/key.js';
import { Status } from '../../../src/endpoints/status.js';

const plain: Where = { host: 'compute-1', region: null };
const region: Where = { host: 'compute-1', region: 'paris-2' };
const workload: EndpointId = {
  kind: 'workload',
  orchestrator: 'openstack',
  workload: 'openstack/vm 1',
  endpoint: 'a%b/c',
};
const host: EndpointId = { kind: 'host', endpoint: 'eth0' };
const bytes = (text: string) => Buffer.from(text);

describe('status keys', () => {
  it('are where Calico keeps them', () => {
    assert.equal(
      statusKey(workload, plain),
      '/calico/felix/v2/no-region/host/compute-1/workload/openstack/openstack%2fvm 1/endpoint/a%25b%2fc',
    );
    assert.equal(
      statusKey(workload, region),
      '/calico/felix/v2/region-paris-2/host/compute-1/workload/openstack/openstack%2fvm 1/endpoint/a%25b%2fc',
    );
    assert.equal(statusKey(host, region), '/calico/felix/v1/host/compute-1/endpoint/eth0');
  });

  it("keep flapd's own outside of what Neutron and Felix watch", () => {
    assert.equal(claimKey(plain), '/calico/flapd/v1/no-region/host/compute-1/claim');
    assert.equal(cursorKey(region, 3), '/calico/flapd/v1/region-paris-2/host/compute-1/lane/3');
  });

  it('read back as the id they were made of, whatever is in it (C7)', () => {
    const part = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((text) => {
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are refused
      return !/[\u0000-\u001f\u007f]/.test(text) && text.isWellFormed();
    });
    const ids: fc.Arbitrary<EndpointId> = fc.oneof(
      fc.record(
        {
          kind: fc.constant('workload' as const),
          orchestrator: part,
          workload: part,
          endpoint: part,
        },
        { noNullPrototype: true },
      ),
      fc.record({ kind: fc.constant('host' as const), endpoint: part }, { noNullPrototype: true }),
      fc.record(
        {
          kind: fc.constant('host' as const),
          endpoint: fc.constantFrom('a%2fb', 'a/b', '%', '%25', '/', '%2F', 'a%252fb'),
        },
        { noNullPrototype: true },
      ),
    );
    fc.assert(
      fc.property(ids, fc.constantFrom(plain, region), (id, where) => {
        assert.deepEqual(parseStatusKey(statusKey(id, where), where), id);
      }),
      { numRuns: 2000 },
    );
  });

  const foreign = [
    ['another host', '/calico/felix/v2/no-region/host/compute-10/workload/o/w/endpoint/e'],
    ['another region', '/calico/felix/v2/region-x/host/compute-1/workload/o/w/endpoint/e'],
    ['a part too many', '/calico/felix/v2/no-region/host/compute-1/workload/o/w/endpoint/e/x'],
    ['a part too few', '/calico/felix/v2/no-region/host/compute-1/workload/o/endpoint/e'],
    ['another word', '/calico/felix/v2/no-region/host/compute-1/workload/o/w/port/e'],
    ['an escape that nobody writes', '/calico/felix/v2/no-region/host/compute-1/workload/o/w%41/endpoint/e'],
    ['an empty part', '/calico/felix/v2/no-region/host/compute-1/workload/o//endpoint/e'],
    ['a control character', '/calico/felix/v1/host/compute-1/endpoint/a\nb'],
    ['a part longer than any that is written', `/calico/felix/v1/host/compute-1/endpoint/${'x'.repeat(600)}`],
    ['the process status', '/calico/felix/v2/no-region/host/compute-1/status'],
  ] as const;
  for (const [what, key] of foreign) {
    it(`are not those of ${what}`, () => assert.equal(parseStatusKey(key, plain), null));
  }

  const refused: [string, EndpointId][] = [
    ['an empty part', { kind: 'host', endpoint: '' }],
    ['a control character', { kind: 'host', endpoint: 'a\nb' }],
    ['half a surrogate pair', { kind: 'host', endpoint: 'a\ud800' }],
    ['a part of a thousand bytes', { kind: 'host', endpoint: 'x'.repeat(1000) }],
  ];
  for (const [what, id] of refused) {
    it(`refuse ${what}`, () => assert.throws(() => statusKey(id, plain), { code: 'INVALID_ENDPOINT_ID' }));
  }
});

describe('status values', () => {
  it('are exactly what Calico writes', () => {
    assert.deepEqual(
      [Status.up, Status.down, Status.error].map((status) =>
        Buffer.from(statusValue(status as 1 | 2 | 3)).toString(),
      ),
      ['{"status":"up"}', '{"status":"down"}', '{"status":"error"}'],
    );
  });

  const unreadable = [
    '',
    'up',
    '"up"',
    '[]',
    'null',
    '{}',
    '{"status":1}',
    '{"status":"UP"}',
    '{"__proto__":{"status":"up"}}',
    '{"status":"removed"}',
  ];
  for (const text of unreadable) {
    it(`${JSON.stringify(text)} is unreadable`, () => assert.equal(parseStatusValue(bytes(text)), null));
  }

  it('a byte order mark makes them unreadable: Python refuses it', () => {
    assert.equal(parseStatusValue(bytes('\ufeff{"status":"up"}')), null);
  });

  it('bytes that are no UTF-8 are unreadable (C30)', () => {
    assert.equal(parseStatusValue(Buffer.from('{"status":"up\xff"}', 'latin1')), null);
  });

  it('are read with whatever else is in them', () => {
    assert.equal(parseStatusValue(bytes(' {"x": 1, "status": "down"} ')), Status.down);
  });
});

describe('hosts and regions', () => {
  it('refuse what would leave its prefix, or what Neutron never looks for (C8, C32)', () => {
    for (const bad of ['', 'a/b', 'a\nb', 'x'.repeat(300)])
      assert.notEqual(hostProblem(bad), null, JSON.stringify(bad));
    for (const bad of ['', 'Paris', 'a/b', 'a.b', '-a', 'a-', 'x'.repeat(64)])
      assert.notEqual(regionProblem(bad), null, bad);
    assert.equal(hostProblem('compute-1.example.org'), null);
    assert.equal(regionProblem('region-1'), null);
  });
});

describe('lanes', () => {
  it('are what they always were: cursors in etcd depend on it', () => {
    assert.deepEqual(
      ['', 'a', '/calico/felix/v1/host/h/endpoint/eth0'].map((key) => laneOf(key, 64)),
      laneVectors,
    );
  });

  it('share keys that differ in a digit evenly', () => {
    const counts = [0, 0, 0, 0];
    for (let i = 0; i < 10_000; i++) counts[laneOf(`/calico/felix/v1/host/h/endpoint/tap${i}`, 4)]!++;
    for (const count of counts) assert.ok(count > 2300 && count < 2700, String(counts));
  });
});

const laneVectors = [11, 51, 15];
