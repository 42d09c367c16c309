import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Definition, Deriver } from '../../../src/endpoints/derive.js';
import type { EndpointId } from '../../../src/endpoints/id.js';
import { Source, Status, statusName } from '../../../src/endpoints/status.js';

function deriver(interfaces: RegExp | null = null, interfaceExclude: RegExp | null = null, read = true) {
  const told: string[] = [];
  const made = new Deriver({
    interfaces,
    interfaceExclude,
    emit: (id, status) =>
      told.push(`${id.kind === 'workload' ? id.workload : id.endpoint} ${statusName(status)}`),
  });
  if (read) made.interfacesRead(0);
  return { deriver: made, told };
}

const vmId: EndpointId = { kind: 'workload', orchestrator: 'openstack', workload: 'vm', endpoint: 'port' };
const hostId: EndpointId = { kind: 'host', endpoint: 'host' };
const vm = (interfaceName: string, active = true): Definition => ({
  kind: 'workload',
  id: vmId,
  interfaceName,
  active,
});
const host = (interfaceName: string, expectedIps: string[] = []): Definition => ({
  kind: 'host',
  id: hostId,
  interfaceName,
  expectedIps,
});

describe('the status of a workload endpoint', () => {
  const rows: [string, boolean, boolean | null, string[]][] = [
    ['down where its interface is missing, never error (C2)', true, null, ['vm down']],
    ['up where its interface runs', true, true, ['vm up']],
    ['down where its interface does not run', true, false, ['vm down']],
    ['down where it is not active', false, true, ['vm down']],
  ];
  for (const [what, active, running, expected] of rows) {
    it(`is ${what}`, () => {
      const { deriver: one, told } = deriver();
      if (running !== null) one.linkSeen(4, 'tap1', running, 0);
      one.define(vm('tap1', active), Source.datastore, 0);
      assert.deepEqual(told, expected);
    });
  }

  it('follows its interface, and is removed with its definition only', () => {
    const { deriver: one, told } = deriver();
    one.define(vm('tap1'), Source.datastore, 0);
    one.linkSeen(4, 'tap1', false, 1);
    one.linkSeen(4, 'tap1', true, 2);
    one.linkGone(4, 3);
    one.linkSeen(5, 'tap1', false, 4);
    one.linkSeen(5, 'tap1', true, 5);
    one.undefine(vmId, Source.datastore, 6);
    one.linkSeen(5, 'tap1', false, 7);
    assert.deepEqual(told, ['vm down', 'vm up', 'vm down', 'vm up', 'vm removed']);
  });

  it('is down first where a new interface has the name of one whose removal was not seen yet (C5)', () => {
    const { deriver: one, told } = deriver();
    one.define(vm('tap1'), Source.datastore, 0);
    one.linkSeen(4, 'tap1', true, 1);
    one.linkSeen(9, 'tap1', true, 2);
    one.linkGone(4, 3);
    assert.deepEqual(told, ['vm down', 'vm up', 'vm down', 'vm up']);
  });

  it('goes with the old name and comes with the new one (C6)', () => {
    const { deriver: one, told } = deriver();
    one.linkSeen(4, 'eth7', true, 0);
    one.define(vm('tap1'), Source.datastore, 0);
    one.linkSeen(4, 'tap1', true, 1);
    one.linkSeen(4, 'eth7', true, 2);
    assert.deepEqual(told, ['vm down', 'vm up', 'vm down']);
  });

  it('is another interface where the one that lost its name comes back with another', () => {
    const { deriver: one, told } = deriver();
    one.define(vm('tap2'), Source.datastore, 0);
    one.linkSeen(4, 'tap1', true, 1);
    one.linkSeen(5, 'tap2', true, 2);
    // A dump after an overrun: the two have changed names.
    one.linkSeen(4, 'tap2', true, 3);
    one.linkSeen(5, 'tap1', true, 3);
    one.linkGone(4, 4);
    assert.deepEqual(told, ['vm down', 'vm up', 'vm down', 'vm up', 'vm down']);
  });

  it('is not told twice where two endpoints have one interface, and told for both', () => {
    const { deriver: one, told } = deriver();
    const other: Definition = {
      kind: 'workload',
      id: { ...vmId, workload: 'vm2' } as EndpointId,
      interfaceName: 'tap1',
      active: true,
    };
    one.define(vm('tap1'), Source.datastore, 0);
    one.define(other, Source.datastore, 0);
    one.linkSeen(4, 'tap1', true, 1);
    one.linkSeen(4, 'tap1', true, 2);
    assert.deepEqual(told, ['vm down', 'vm2 down', 'vm up', 'vm2 up']);
  });

  it("is what Felix's dataplane says, where it says it, until it says that it is gone", () => {
    const { deriver: one, told } = deriver();
    one.linkSeen(4, 'tap1', true, 0);
    one.define(vm('tap1'), Source.datastore, 0);
    one.told(vmId, Status.down, 1);
    one.linkSeen(4, 'tap1', false, 2);
    one.linkSeen(4, 'tap1', true, 3);
    assert.deepEqual(told, ['vm up', 'vm down']);
  });

  it('stays removed where the dataplane removed it, until it is defined anew', () => {
    const { deriver: one, told } = deriver();
    one.linkSeen(4, 'tap1', true, 0);
    one.define(vm('tap1'), Source.datastore, 0);
    one.told(vmId, Status.down, 1);
    one.told(vmId, Status.removed, 2);
    one.linkGone(4, 3);
    one.linkSeen(5, 'tap1', true, 4);
    assert.deepEqual(told, ['vm up', 'vm down', 'vm removed']);
    one.define(vm('tap1'), Source.datastore, 5);
    one.linkSeen(5, 'tap1', false, 6);
    assert.deepEqual(told.slice(3), ['vm up', 'vm down']);
  });
});

describe('while the interfaces are being read', () => {
  it('nothing follows from one that was not read yet, until all are', () => {
    const { deriver: one, told } = deriver(null, null, false);
    one.define(vm('tap1'), Source.datastore, 0);
    one.define(host('eth0'), Source.datastore, 0);
    assert.deepEqual(told, []);
    one.interfacesRead(1);
    assert.deepEqual(told, ['vm down', 'host error']);
  });

  it('what was read is told at once, and that it went too', () => {
    const { deriver: one, told } = deriver(null, null, false);
    one.define(vm('tap1'), Source.datastore, 0);
    one.linkSeen(4, 'tap1', true, 1);
    one.linkGone(4, 2);
    one.interfacesRead(3);
    assert.deepEqual(told, ['vm up', 'vm down']);
  });

  it('what hangs on no interface is told at once', () => {
    const { deriver: one, told } = deriver(null, null, false);
    one.define(vm('tap1', false), Source.datastore, 0);
    one.define(host('*'), Source.datastore, 0);
    assert.deepEqual(told, ['vm down', 'host up']);
  });

  it('an endpoint that goes is removed', () => {
    const { deriver: one, told } = deriver(null, null, false);
    one.define(vm('tap1'), Source.datastore, 0);
    one.undefine(vmId, Source.datastore, 1);
    one.interfacesRead(2);
    assert.deepEqual(told, ['vm removed']);
  });
});

describe('the status of a host endpoint', () => {
  it('is error where no interface is found, and that of the interface where one is', () => {
    const { deriver: one, told } = deriver();
    one.define(host('eth0'), Source.datastore, 0);
    one.linkSeen(2, 'eth0', false, 1);
    one.linkSeen(2, 'eth0', true, 2);
    one.linkGone(2, 3);
    assert.deepEqual(told, ['host error', 'host down', 'host up', 'host error']);
  });

  it('is up for all interfaces', () => {
    const { deriver: one, told } = deriver();
    one.define(host('*'), Source.datastore, 0);
    assert.deepEqual(told, ['host up']);
  });

  it('is found by its addresses, and up where all that have one run', () => {
    const { deriver: one, told } = deriver();
    one.define(host('', ['10.0.0.1', '10.0.0.2']), Source.datastore, 0);
    one.linkSeen(2, 'eth0', true, 1);
    one.linkSeen(3, 'eth1', false, 1);
    one.addressSeen(2, '10.0.0.1', true, 2);
    one.addressSeen(3, '10.0.0.2', true, 3);
    one.linkSeen(3, 'eth1', true, 4);
    one.addressSeen(2, '10.0.0.1', false, 5);
    one.addressSeen(3, '10.0.0.2', false, 6);
    assert.deepEqual(told, ['host error', 'host up', 'host down', 'host up', 'host error']);
  });
});

describe('the addresses of a host endpoint', () => {
  it('are the same in whatever form they are written', () => {
    const { deriver: one, told } = deriver();
    one.linkSeen(2, 'eth0', true, 0);
    one.addressSeen(2, 'fe80::1', true, 0);
    one.define(host('', ['FE80:0::1/64']), Source.datastore, 1);
    assert.deepEqual(told, ['host up']);
  });

  it('are kept by an interface that another one took the name of, once it has a name again', () => {
    const { deriver: one, told } = deriver();
    one.linkSeen(2, 'eth0', true, 0);
    one.addressSeen(2, '10.0.0.1', true, 0);
    one.define(host('', ['10.0.0.1']), Source.datastore, 1);
    one.linkSeen(3, 'eth0', true, 2);
    one.linkSeen(2, 'eth1', true, 3);
    assert.deepEqual(told, ['host up', 'host error', 'host up']);
  });
});

describe('interfaces alone', () => {
  it('are endpoints where their name matches, and removed when they go', () => {
    const { deriver: one, told } = deriver(/^tap/, /^tapx/);
    one.linkSeen(2, 'eth0', true, 0);
    one.linkSeen(3, 'tapx1', true, 0);
    one.linkSeen(4, 'tap1', true, 0);
    one.linkSeen(4, 'tap1', false, 1);
    one.linkGone(4, 2);
    assert.deepEqual(told, ['tap1 up', 'tap1 down', 'tap1 removed']);
  });

  it('are other endpoints when they are renamed, or replaced unseen', () => {
    const { deriver: one, told } = deriver(/^tap/);
    one.linkSeen(4, 'tap1', true, 0);
    one.linkSeen(4, 'tap2', true, 1);
    one.linkSeen(5, 'tap2', false, 2);
    one.linkGone(4, 3);
    assert.deepEqual(told, ['tap1 up', 'tap1 removed', 'tap2 up', 'tap2 removed', 'tap2 down']);
  });
});
