import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Where } from '../../../../src/endpoints/key.js';
import {
  hostResources,
  readResource,
  workloadResources,
} from '../../../../src/sources/datastore/resource.js';
import {
  hostEndpoint,
  hostEndpointKey,
  namespaceOf,
  type Port,
  type Resource,
  workloadEndpoint,
  workloadEndpointId,
  workloadEndpointKey,
} from '../../../support/calico.js';

const where: Where = { host: 'node-a', region: null };
const port: Port = { node: 'node-a', vm: '7f0c-11', port: '3d5f1c2e-9a4b' };

const bytes = (text: string) => Buffer.from(text);
const read = ({ key, value }: Resource, here = where) => readResource(key, bytes(value), here);
const readValue = (value: Buffer | string, key = workloadEndpointKey(port)) =>
  readResource(key, Buffer.from(value), where);

/** The resource of `port` with another spec. */
function withSpec(change: Record<string, unknown>): string {
  const resource = JSON.parse(workloadEndpoint(port).value) as { spec: object };
  return JSON.stringify({ ...resource, spec: { ...resource.spec, ...change } });
}

function whyDamaged(value: Buffer | string, key?: string): string {
  const reading = readValue(value, key);
  assert.equal(reading.kind, 'damaged');
  return reading.kind === 'damaged' ? reading.why : '';
}

describe("a workload endpoint's resource", () => {
  it('is below the narrow prefix of its host, in the namespace of its region', () => {
    assert.equal(
      workloadResources(where),
      '/calico/resources/v3/projectcalico.org/workloadendpoints/openstack/node--a-',
    );
    assert.equal(
      workloadResources({ host: 'node', region: 'eu-west' }),
      '/calico/resources/v3/projectcalico.org/workloadendpoints/openstack-region-eu-west/node-',
    );
    for (const region of [null, 'eu-west']) {
      assert.ok(workloadEndpointKey({ ...port, region }).startsWith(workloadResources({ ...where, region })));
    }
  });

  it('defines an active endpoint, its workload with the namespace', () => {
    assert.deepEqual(read(workloadEndpoint(port)), {
      kind: 'reported',
      definition: {
        kind: 'workload',
        id: {
          kind: 'workload',
          orchestrator: 'openstack',
          workload: 'openstack/7f0c-11',
          endpoint: '3d5f1c2e-9a4b',
        },
        interfaceName: 'tap3d5f1c2e-9a',
        active: true,
      },
    });
  });

  it('has the id that its name says, whatever the parts of it', () => {
    const part = fc.stringMatching(/^[a-z0-9.]([a-z0-9.-]{0,20}[a-z0-9.])?$/);
    fc.assert(
      fc.property(part, part, part, fc.option(part), (node, vm, id, region) => {
        const one = { node, vm, port: id, region };
        const reading = read(workloadEndpoint(one), { host: node, region });
        assert.equal(reading.kind, 'reported');
        assert.deepEqual(
          reading.kind === 'reported' && reading.definition.id,
          workloadEndpointId(one),
          'the id as Neutron has it',
        );
      }),
    );
  });

  it('is told from that of a host whose name goes on with a dash, though its key has the prefix', () => {
    const other = port;
    assert.ok(workloadEndpointKey(other).startsWith(workloadResources({ host: 'node', region: null })));
    assert.deepEqual(read(workloadEndpoint(other), { host: 'node', region: null }), { kind: 'unreported' });
    // Also where its value claims to be this host's, or is damaged: it is not this host's to complain about.
    const claiming = withSpec({ node: 'node' });
    assert.deepEqual(
      readResource(workloadEndpointKey(other), bytes(claiming), { host: 'node', region: null }),
      { kind: 'unreported' },
    );
    assert.deepEqual(readResource(workloadEndpointKey(other), bytes('{'), { host: 'node', region: null }), {
      kind: 'unreported',
    });
  });

  for (const [what, change] of [
    ['of another node', { node: 'node-b' }],
    ['of a node that differs in the case of a letter', { node: 'Node-a' }],
    ['without networks', { ipNetworks: [] }],
    ['that lists none', { ipNetworks: undefined }],
    ['whose networks are null', { ipNetworks: null }],
  ] as const) {
    it(`${what} is not reported`, () => {
      assert.deepEqual(readValue(withSpec(change)), { kind: 'unreported' });
    });
  }

  it('is read whatever else it holds', () => {
    const value = withSpec({ state: 7, profiles: 'x', ['__proto__']: { node: 'node-b' } });
    assert.equal(readValue(value).kind, 'reported');
    assert.equal(readValue(value.replace('"default"', '"d\\u0000"')).kind, 'reported');
    const latin1 = Buffer.from(value.replace('"default"', '"dé"'), 'latin1');
    assert.ok(latin1.includes(0xe9), 'it is no UTF-8');
    assert.equal(readValue(latin1).kind, 'reported');
  });

  const damaged: readonly (readonly [string, Buffer | string, RegExp])[] = [
    ['nothing', '', /no JSON/],
    ['half of it', workloadEndpoint(port).value.slice(0, 300), /no JSON/],
    ['no text', Buffer.from([0xff, 0xfe, 0x00]), /no JSON/],
    ['null', 'null', /the whole/],
    ['a list', '[]', /the whole/],
    ['no spec', '{}', /spec/],
    ['no node', withSpec({ node: undefined }), /spec\.node/],
    ['a number for its interface', withSpec({ interfaceName: 7 }), /spec\.interfaceName/],
    ['no interface', withSpec({ interfaceName: '' }), /names no interface/],
    ['networks that are text', withSpec({ ipNetworks: '10.0.0.1/32' }), /spec\.ipNetworks/],
    ['a network that is null', withSpec({ ipNetworks: [null] }), /spec\.ipNetworks\.0/],
    ['a prototype for a spec', '{"__proto__": {"spec": {"node": "node-a"}}}', /spec/],
    ['brackets without an end', '['.repeat(1_000_000), /no JSON/],
    ['more than a megabyte', `${' '.repeat(2 ** 20)}${workloadEndpoint(port).value}`, /longer than/],
  ];
  for (const [what, value, why] of damaged) {
    it(`that holds ${what} is damaged, and still has its id`, () => {
      const reading = readValue(value);
      assert.ok(reading.kind === 'damaged', reading.kind);
      assert.match(reading.why, why);
      assert.deepEqual(reading.id, workloadEndpointId(port));
    });
  }

  for (const name of [
    'node--a-openstack-vm',
    'node--a-openstack-vm-port-more',
    'node--a-openstack-vm-',
    'node--a-openstack-vm-port-',
    'node--a-openstack-vm-port/status',
    'node--a-/node--a-openstack-vm-port',
    'node--a-',
    'node--a-openstack-vm-\ufffd',
    'node--a-openstack-vm-\u0001',
    `node--a-openstack-vm-${'x'.repeat(600)}`,
  ]) {
    it(`named ${JSON.stringify(name.slice(0, 40))} is no endpoint's`, () => {
      const key = `/calico/resources/v3/projectcalico.org/workloadendpoints/openstack/${name}`;
      assert.ok(key.startsWith(workloadResources(where)));
      const reading = readValue(withSpec({}), key);
      assert.ok(reading.kind === 'damaged', reading.kind);
      assert.equal(reading.id, null);
    });
  }

  it('named like a property of every object is an endpoint like others', () => {
    const one = { ...port, vm: '__proto__', port: 'constructor' };
    const reading = read(workloadEndpoint(one));
    assert.deepEqual(reading.kind === 'reported' && reading.definition.id, workloadEndpointId(one));
  });

  it('in the namespace of another region is never asked for', () => {
    const key = workloadEndpointKey({ ...port, region: 'eu' });
    assert.ok(!key.startsWith(workloadResources(where)));
    assert.ok(!workloadEndpointKey(port).startsWith(workloadResources({ ...where, region: 'eu' })));
    assert.equal(namespaceOf('eu'), 'openstack-region-eu');
    assert.match(whyDamaged(withSpec({}), key), /its name is not/);
  });
});

describe("a host endpoint's resource", () => {
  const own = { name: 'node-a.eth0', node: 'node-a' };
  const definition = { kind: 'host', id: { kind: 'host', endpoint: 'node-a.eth0' } } as const;

  it('is below the prefix of all of them', () => {
    assert.equal(hostResources, '/calico/resources/v3/projectcalico.org/hostendpoints/');
    assert.equal(hostEndpointKey('x'), `${hostResources}x`);
  });

  for (const [what, given, expected] of [
    ['its interface', { interfaceName: 'eth0' }, { interfaceName: 'eth0', expectedIps: [] }],
    ['all interfaces', { interfaceName: '*' }, { interfaceName: '*', expectedIps: [] }],
    [
      'the addresses of its interface',
      { expectedIPs: ['10.0.0.1', 'fd00::1'] },
      { interfaceName: '', expectedIps: ['10.0.0.1', 'fd00::1'] },
    ],
    [
      'both',
      { interfaceName: 'eth0', expectedIPs: ['10.0.0.1'] },
      { interfaceName: 'eth0', expectedIps: ['10.0.0.1'] },
    ],
    ['neither', {}, { interfaceName: '', expectedIps: [] }],
  ] as const) {
    it(`may name ${what}`, () => {
      assert.deepEqual(read(hostEndpoint({ ...own, ...given })), {
        kind: 'reported',
        definition: { ...definition, ...expected },
      });
    });
  }

  it("of another node, or of none, is not this host's, whatever its name", () => {
    const interfaceName = 'eth0';
    for (const node of ['node-b', 'node', 'NODE-A', '']) {
      assert.deepEqual(read(hostEndpoint({ ...own, node, interfaceName })), { kind: 'unreported' });
    }
    assert.deepEqual(readValue('{"spec": {"interfaceName": "eth0"}}', hostEndpointKey('x')), {
      kind: 'unreported',
    });
  });

  it('that cannot be read still has its id', () => {
    for (const value of ['{', '{"spec": 1}', '{"spec": {"node": "node-a", "expectedIPs": "10.0.0.1"}}']) {
      const reading = readValue(value, hostEndpointKey('x'));
      assert.ok(reading.kind === 'damaged', value);
      assert.deepEqual(reading.id, { kind: 'host', endpoint: 'x' });
    }
  });

  it("with a name that no resource can have is no endpoint's", () => {
    for (const name of ['', 'a/b', '\ufffd']) {
      assert.match(whyDamaged(hostEndpoint({ ...own }).value, hostEndpointKey(name)), /./);
    }
  });
});
