import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import protobuf from 'protobufjs';
import type { EndpointId, EndpointIndex } from '../../../../src/endpoints/id.js';
import { Status, statusName } from '../../../../src/endpoints/status.js';
import { FrameError, FrameSplitter, frame } from '../../../../src/sources/felix/frames.js';
import { decodeFromDataplane } from '../../../../src/sources/felix/from-dataplane.js';
import {
  decodeAck,
  encodeAck,
  encodeInSync,
  encodeSequenceNumber,
  encodeStatus,
  FromDataplaneDecoder,
} from '../../../../src/sources/felix/messages.js';
import { DecodeError } from '../../../../src/wire/protobuf.js';

/** The field numbers of Felix's protocol, read by a kept library: what our own decoder is measured against. */
const { root } = protobuf.parse(`
  syntax = "proto3";
  message FromDataplane {
    oneof payload {
      ProcessStatusUpdate process_status_update = 3;
      HostEndpointStatusUpdate host_endpoint_status_update = 4;
      HostEndpointStatusRemove host_endpoint_status_remove = 5;
      WorkloadEndpointStatusUpdate workload_endpoint_status_update = 6;
      WorkloadEndpointStatusRemove workload_endpoint_status_remove = 7;
      DataplaneInSync dataplane_in_sync = 10;
      Other something_else = 12;
    }
    uint64 sequence_number = 8;
  }
  message ProcessStatusUpdate { string iso_timestamp = 1; double uptime = 2; }
  message HostEndpointID { string endpoint_id = 2; }
  message WorkloadEndpointID { string orchestrator_id = 2; string workload_id = 3; string endpoint_id = 4; }
  message EndpointStatus { string status = 1; }
  message HostEndpointStatusUpdate { HostEndpointID id = 1; EndpointStatus status = 2; }
  message HostEndpointStatusRemove { HostEndpointID id = 1; }
  message WorkloadEndpointStatusUpdate { WorkloadEndpointID id = 1; EndpointStatus status = 2; }
  message WorkloadEndpointStatusRemove { WorkloadEndpointID id = 1; }
  message DataplaneInSync {}
  message Other { string text = 1; bytes more = 99; }
  message ToDataplane { uint64 sequence_number = 15; }
`);
const FromDataplane = root.lookupType('FromDataplane');
const ToDataplane = root.lookupType('ToDataplane');
const kept = (message: object) => FromDataplane.encode(FromDataplane.fromObject(message)).finish();

function decoder() {
  const ids: EndpointId[] = [];
  return { ids, decoder: new FromDataplaneDecoder((id) => (ids.push(id) - 1) as EndpointIndex, 100) };
}

const part = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 30 })
  .filter((text) => text.isWellFormed());
const id: fc.Arbitrary<EndpointId> = fc.oneof(
  fc.record(
    { kind: fc.constant('workload' as const), orchestrator: part, workload: part, endpoint: part },
    { noNullPrototype: true },
  ),
  fc.record({ kind: fc.constant('host' as const), endpoint: part }, { noNullPrototype: true }),
);
const status = fc.constantFrom(Status.removed, Status.up, Status.down, Status.error);

function toObject(endpoint: EndpointId, value: Status, sequenceNumber: number): object {
  const theId =
    endpoint.kind === 'host'
      ? { endpointId: endpoint.endpoint }
      : {
          orchestratorId: endpoint.orchestrator,
          workloadId: endpoint.workload,
          endpointId: endpoint.endpoint,
        };
  const field = `${endpoint.kind}EndpointStatus${value === Status.removed ? 'Remove' : 'Update'}`;
  const content =
    value === Status.removed ? { id: theId } : { id: theId, status: { status: statusName(value) } };
  return { [field]: content, sequenceNumber };
}

/** A workload is never `error`. */
const reported = (endpoint: EndpointId, value: Status): Status =>
  endpoint.kind === 'workload' && value === Status.error ? Status.down : value;

describe("Felix's messages", () => {
  it('have their endpoints known again, as many as there may be, without their ids being made anew', () => {
    const endpoints = 100_000;
    const interned = { count: 0 };
    const one = new FromDataplaneDecoder(() => interned.count++ as EndpointIndex, endpoints);
    const messages = Array.from({ length: endpoints }, (_, n) =>
      encodeStatus({ kind: 'workload', orchestrator: 'o', workload: 'w', endpoint: `e${n}` }, Status.up),
    );
    const numbers = messages.map((message) => one.decode(message).endpoint);
    let kept = 0;
    for (const [n, message] of messages.entries()) if (one.decode(message).endpoint === numbers[n]) kept++;
    // A few share their eight slots with too many others.
    assert.ok(kept > 0.99 * endpoints, `${kept} of ${endpoints}`);
  });

  it('are read as a kept library has written them', () => {
    const { ids, decoder: one } = decoder();
    fc.assert(
      fc.property(id, status, fc.nat(), (endpoint, value, sequenceNumber) => {
        const decoded = one.decode(kept(toObject(endpoint, value, sequenceNumber)));
        assert.deepEqual(ids[decoded.endpoint], endpoint);
        assert.deepEqual(decodeFromDataplane(kept(toObject(endpoint, value, sequenceNumber))), {
          kind: 'status',
          id: endpoint,
          status: decoded.status,
        });
        assert.deepEqual(
          { ...decoded },
          {
            kind: 'status',
            endpoint: decoded.endpoint,
            status: reported(endpoint, value),
            processStatus: null,
            sequenceNumber,
          },
        );
      }),
      { numRuns: 1000 },
    );
  });

  it('are written as a kept library reads them', () => {
    fc.assert(
      fc.property(id, status, fc.integer({ min: 1, max: 2 ** 31 }), (endpoint, value, sequenceNumber) => {
        const ours = Buffer.concat([encodeStatus(endpoint, value), encodeSequenceNumber(sequenceNumber)]);
        const read = FromDataplane.toObject(FromDataplane.decode(ours), { longs: Number });
        assert.deepEqual(read, toObject(endpoint, value, sequenceNumber));
      }),
    );
    assert.deepEqual(ToDataplane.toObject(ToDataplane.decode(encodeAck(77)), { longs: Number }), {
      sequenceNumber: 77,
    });
    assert.equal(decodeAck(encodeAck(2 ** 40)), 2 ** 40);
  });

  it('of a workload in error are of one that is down, since Neutron would have Nova give the VM up', () => {
    const { decoder: one } = decoder();
    const workload: EndpointId = { kind: 'workload', orchestrator: 'o', workload: 'w', endpoint: 'e' };
    const host: EndpointId = { kind: 'host', endpoint: 'h' };
    assert.equal(one.decode(encodeStatus(workload, Status.error)).status, Status.down);
    assert.equal(one.decode(encodeStatus(host, Status.error)).status, Status.error);
    assert.deepEqual(decodeFromDataplane(encodeStatus(workload, Status.error)), {
      kind: 'status',
      id: workload,
      status: Status.down,
    });
  });

  it('ask for the number of an id once, and know it by its bytes from then on', () => {
    const { ids, decoder: one } = decoder();
    const workload: EndpointId = { kind: 'workload', orchestrator: 'o', workload: 'w', endpoint: 'e' };
    for (let i = 0; i < 5; i++) assert.equal(one.decode(encodeStatus(workload, Status.up)).endpoint, 0);
    // The same bytes as another kind of id are another endpoint.
    one.decode(encodeStatus({ kind: 'host', endpoint: 'o' }, Status.up));
    assert.equal(ids.length, 2);
  });

  it('that matter to others are skipped', () => {
    const { decoder: one } = decoder();
    assert.equal(one.decode(encodeInSync()).kind, 'inSync');
    assert.equal(
      one.decode(kept({ processStatusUpdate: { isoTimestamp: 'now', uptime: 1.5 } })).kind,
      'processStatus',
    );
    assert.equal(one.decode(kept({ somethingElse: { text: 'x', more: Buffer.alloc(10) } })).kind, 'other');
    assert.equal(one.decode(new Uint8Array()).kind, 'other');
  });

  it('carry the heartbeat of the dataplane', () => {
    const { decoder: one } = decoder();
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.double({ noNaN: true }), (isoTimestamp, uptime) => {
        const decoded = one.decode(kept({ processStatusUpdate: { isoTimestamp, uptime } }));
        assert.equal(decoded.kind, 'processStatus');
        assert.deepEqual(decoded.processStatus, { isoTimestamp, uptimeSeconds: uptime });
      }),
    );
  });

  it('with several things in one are what the last of them says', () => {
    const host: EndpointId = { kind: 'host', endpoint: 'h' };
    const workload: EndpointId = { kind: 'workload', orchestrator: 'o', workload: 'w', endpoint: 'e' };
    const { ids, decoder: one } = decoder();
    const both = Buffer.concat([encodeStatus(host, Status.up), encodeStatus(workload, Status.down)]);
    assert.equal(one.decode(both).status, Status.down);
    assert.deepEqual(ids, [workload]);
    assert.equal(one.decode(Buffer.concat([both, encodeInSync()])).kind, 'inSync');
  });

  it('of endpoints whose numbers were given out anew ask again', () => {
    const { ids, decoder: one } = decoder();
    const host: EndpointId = { kind: 'host', endpoint: 'h' };
    assert.equal(one.decode(encodeStatus(host, Status.up)).endpoint, 0);
    one.forgetNumbers();
    assert.equal(one.decode(encodeStatus(host, Status.up)).endpoint, 1);
    assert.equal(ids.length, 2);
  });

  const wrong: [string, Uint8Array][] = [
    [
      'a status that is none',
      kept({ workloadEndpointStatusUpdate: { id: { workloadId: 'w' }, status: { status: 'broken' } } }),
    ],
    ['an update without a status', kept({ workloadEndpointStatusUpdate: { id: { workloadId: 'w' } } })],
    ['an update without an id', kept({ hostEndpointStatusUpdate: { status: { status: 'up' } } })],
    ['a status without a name', kept({ hostEndpointStatusUpdate: { id: { endpointId: 'h' }, status: {} } })],
    ['a sequence number that no acknowledgement can hold', encodeSequenceNumber(2 ** 53)],
    ['an id that is no UTF-8', Buffer.from('3a060a0422020aff', 'hex').fill(0xff, 7)],
  ];
  for (const [what, bytes] of wrong) {
    it(`are refused with ${what}`, () => {
      assert.throws(() => decoder().decoder.decode(bytes), DecodeError);
    });
  }

  it('damaged in any way give a DecodeError or a message, nothing else', () => {
    const whole = kept(
      toObject(
        { kind: 'workload', orchestrator: 'openstack', workload: 'openstack/vm', endpoint: 'port' },
        Status.up,
        9,
      ),
    );
    const mutant = fc
      .array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
      .map((changes) => {
        const bytes = Uint8Array.from(whole);
        for (const [at, byte] of changes) bytes[at] = byte;
        return bytes;
      });
    const { decoder: one } = decoder();
    fc.assert(
      fc.property(fc.oneof(mutant, fc.uint8Array({ maxLength: 100 })), (bytes) => {
        try {
          one.decode(bytes);
        } catch (error) {
          assert.ok(error instanceof DecodeError, String(error));
        }
      }),
      { numRuns: 10_000 },
    );
  });
});

describe('frames', () => {
  const messages = [Buffer.from('one'), Buffer.alloc(0), Buffer.alloc(5000, 7), Buffer.from('two')];
  const stream = Buffer.concat(messages.map((message) => frame(message)));

  it('are the same however the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(stream.length), { maxLength: 20 }), (cuts) => {
        const got: Buffer[] = [];
        const splitter = new FrameSplitter(10_000, (bytes, start, end) =>
          got.push(Buffer.from(bytes.subarray(start, end))),
        );
        const at = [0, ...cuts.sort((a, b) => a - b), stream.length];
        for (let i = 1; i < at.length; i++) splitter.push(stream.subarray(at[i - 1], at[i]));
        splitter.end();
        assert.deepEqual(got, messages);
      }),
    );
  });

  it('come through a byte at a time', () => {
    const got: Buffer[] = [];
    const splitter = new FrameSplitter(10_000, (bytes, start, end) =>
      got.push(Buffer.from(bytes.subarray(start, end))),
    );
    for (const byte of stream) splitter.push(Buffer.from([byte]));
    assert.deepEqual(got, messages);
    assert.equal(splitter.midFrame, false);
  });

  for (const header of ['1127000000000000', '0000000000000080', 'ffffffffffffffff', '0000000001000000']) {
    it(`announced as ${header} are too long, before anything is allocated`, () => {
      const splitter = new FrameSplitter(10_000, () => assert.fail('no frame is whole'));
      assert.throws(() => splitter.push(Buffer.from(header, 'hex')), { code: 'FRAME_TOO_LONG' });
    });
  }

  it('cut short at the end of the stream are an error', () => {
    for (let length = 1; length < messages[0]!.length + 8; length++) {
      const splitter = new FrameSplitter(10_000, () => assert.fail('no frame is whole'));
      splitter.push(stream.subarray(0, length));
      assert.throws(
        () => splitter.end(),
        (error) => error instanceof FrameError && error.code === 'FRAME_CUT_SHORT',
      );
    }
  });
});
