import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import protobuf from 'protobufjs';
import { decodeToDataplane, encodeToDataplane } from '../../../../src/sources/felix/to-dataplane.js';
import { DecodeError } from '../../../../src/wire/protobuf.js';

/** The field numbers of Felix's protocol, written by a kept library: what our own decoder is measured against. */
const { root } = protobuf.parse(`
  syntax = "proto3";
  message ToDataplane {
    oneof payload {
      InSync in_sync = 1;
      Other ipset_update = 2;
      HostEndpointUpdate host_endpoint_update = 9;
      HostEndpointRemove host_endpoint_remove = 10;
      WorkloadEndpointUpdate workload_endpoint_update = 11;
      WorkloadEndpointRemove workload_endpoint_remove = 12;
    }
    uint64 sequence_number = 15;
  }
  message InSync {}
  message Other { string text = 1; }
  message HostEndpointID { string endpoint_id = 2; }
  message WorkloadEndpointID { string orchestrator_id = 2; string workload_id = 3; string endpoint_id = 4; }
  message HostEndpointUpdate { HostEndpointID id = 1; HostEndpoint endpoint = 3; }
  message HostEndpoint {
    string name = 1;
    repeated string profile_ids = 2;
    repeated string expected_ipv4_addrs = 4;
    repeated string expected_ipv6_addrs = 5;
  }
  message HostEndpointRemove { HostEndpointID id = 1; }
  message WorkloadEndpointUpdate { WorkloadEndpointID id = 1; WorkloadEndpoint endpoint = 5; }
  message WorkloadEndpoint {
    string state = 1;
    string name = 2;
    string mac = 3;
    repeated string profile_ids = 4;
    repeated string ipv4_nets = 5;
    repeated string ipv6_nets = 6;
  }
  message WorkloadEndpointRemove { WorkloadEndpointID id = 1; }
`);
const ToDataplane = root.lookupType('ToDataplane');
const kept = (message: object): Uint8Array =>
  ToDataplane.encode(ToDataplane.fromObject({ sequenceNumber: 3, ...message })).finish();
const text = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((one) => one.isWellFormed());
const texts = fc.array(text, { maxLength: 3 });

describe('what Felix tells a dataplane', () => {
  it('of workload endpoints is read as a kept library has written it', () => {
    fc.assert(
      fc.property(
        fc.tuple(text, text, text, text),
        fc.constantFrom('active', 'inactive', ''),
        texts,
        texts,
        ([orchestrator, workload, endpoint, interfaceName], state, v4, v6) => {
          const id = { orchestratorId: orchestrator, workloadId: workload, endpointId: endpoint };
          const content = {
            state,
            name: interfaceName,
            mac: 'm',
            profileIds: ['p'],
            ipv4Nets: v4,
            ipv6Nets: v6,
          };
          const ours = { kind: 'workload', orchestrator, workload, endpoint };
          const networks = [...v4, ...v6];
          const told = decodeToDataplane(kept({ workloadEndpointUpdate: { id, endpoint: content } }));
          assert.deepEqual(
            told,
            networks.length > 0
              ? {
                  kind: 'defined',
                  definition: { kind: 'workload', id: ours, interfaceName, active: state === 'active' },
                  networks,
                }
              : { kind: 'removed', id: ours }, // one without networks is not reported
          );
          assert.deepEqual(decodeToDataplane(encodeToDataplane(told)!), told);
          const removed = decodeToDataplane(kept({ workloadEndpointRemove: { id } }));
          assert.deepEqual(removed, { kind: 'removed', id: ours });
          assert.deepEqual(decodeToDataplane(encodeToDataplane(removed)!), removed);
        },
      ),
    );
  });

  it('of host endpoints is read as a kept library has written it', () => {
    fc.assert(
      fc.property(text, text, texts, texts, (endpoint, interfaceName, v4, v6) => {
        const id = { endpointId: endpoint };
        const content = { name: interfaceName, expectedIpv4Addrs: v4, expectedIpv6Addrs: v6 };
        const ours = { kind: 'host', endpoint };
        const told = decodeToDataplane(kept({ hostEndpointUpdate: { id, endpoint: content } }));
        assert.deepEqual(told, {
          kind: 'defined',
          definition: { kind: 'host', id: ours, interfaceName, expectedIps: [...v4, ...v6] },
          networks: [],
        });
        assert.deepEqual(decodeToDataplane(encodeToDataplane(told)!), told);
        const removed = decodeToDataplane(kept({ hostEndpointRemove: { id } }));
        assert.deepEqual(removed, { kind: 'removed', id: ours });
        assert.deepEqual(decodeToDataplane(encodeToDataplane(removed)!), removed);
      }),
    );
  });

  it('of other things is passed over, and the end of the beginning is known', () => {
    assert.deepEqual(decodeToDataplane(kept({ inSync: {} })), { kind: 'inSync' });
    assert.deepEqual(decodeToDataplane(kept({ ipsetUpdate: { text: 'x' } })), { kind: 'other' });
    assert.deepEqual(decodeToDataplane(new Uint8Array()), { kind: 'other' });
  });

  it('of an endpoint without an id is refused', () => {
    for (const message of [
      { workloadEndpointUpdate: { endpoint: { name: 'tap1' } } },
      { workloadEndpointRemove: {} },
      { hostEndpointUpdate: { endpoint: { name: 'eth0' } } },
      { hostEndpointRemove: {} },
    ])
      assert.throws(() => decodeToDataplane(kept(message)), DecodeError);
  });

  it('damaged in any way gives a DecodeError or a message, nothing else', () => {
    const id = { orchestratorId: 'openstack', workloadId: 'openstack/vm', endpointId: 'port' };
    const whole = kept({
      workloadEndpointUpdate: { id, endpoint: { state: 'active', name: 'tap1', ipv4Nets: ['10.0.0.1/32'] } },
    });
    const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
    let refused = 0;
    fc.assert(
      fc.property(
        fc.array(change, { minLength: 1, maxLength: 4 }),
        fc.nat(whole.length),
        (changes, length) => {
          const bytes = Uint8Array.from(whole);
          for (const [at, byte] of changes) bytes[at] = byte;
          try {
            decodeToDataplane(bytes.subarray(0, length));
          } catch (error) {
            assert.ok(error instanceof DecodeError, String(error));
            refused++;
          }
        },
      ),
      { numRuns: 10_000 },
    );
    assert.ok(refused > 0, 'none was damaged enough');
  });
});
