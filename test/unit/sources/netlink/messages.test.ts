import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { dumpRequest, MessageParser } from '../../../../src/sources/netlink/messages.js';

const ownPort = 4711;

type Heard = { what: string } & Record<string, unknown>;

function parse(...datagrams: Buffer[]): Heard[] {
  const heard: Heard[] = [];
  const parser = new MessageParser({
    link: (type, message, answerTo) => heard.push({ what: 'link', type, answerTo, ...message }),
    address: (type, message, answerTo) => heard.push({ what: 'address', type, answerTo, ...message }),
    done: (answerTo, errno) => heard.push({ what: 'done', answerTo, errno }),
    interrupted: (answerTo) => heard.push({ what: 'interrupted', answerTo }),
    overrun: () => heard.push({ what: 'overrun' }),
    malformed: () => heard.push({ what: 'malformed' }),
  });
  for (const datagram of datagrams) parser.parse(datagram, ownPort);
  return heard;
}

function attribute(type: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(4);
  header.writeUInt16LE(4 + payload.length, 0);
  header.writeUInt16LE(type, 2);
  return Buffer.concat([header, payload, Buffer.alloc((4 - (payload.length % 4)) % 4)]);
}

function message(type: number, flags: number, seq: number, ...body: Buffer[]): Buffer {
  return messageTo(ownPort, type, flags, seq, ...body);
}

function messageTo(port: number, type: number, flags: number, seq: number, ...body: Buffer[]): Buffer {
  const content = Buffer.concat(body);
  const header = Buffer.alloc(16);
  header.writeUInt32LE(16 + content.length, 0);
  header.writeUInt16LE(type, 4);
  header.writeUInt16LE(flags, 6);
  header.writeUInt32LE(seq, 8);
  header.writeUInt32LE(port, 12);
  return Buffer.concat([header, content]);
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function ifinfo(ifindex: number, flags: number, family = 0): Buffer {
  return Buffer.concat([Buffer.from([family, 0, 1, 0]), u32(ifindex), u32(flags), u32(0)]);
}

const name = (text: string) => attribute(3, Buffer.from(`${text}\0`));

/** As Linux 6.18 sent it for a veth, up and running, less the attributes in between. */
const recorded = Buffer.from(
  '5c000000100000000000000000000000' + // nlmsghdr: 92 bytes, RTM_NEWLINK
    '00000100050000004310010000000000' + // ifinfomsg: index 5, UP|BROADCAST|RUNNING|MULTICAST|LOWER_UP
    '0a00030076657468310000000500100006000000' + // IFLA_IFNAME veth1, IFLA_OPERSTATE up
    '0500210001000000' + // IFLA_CARRIER 1
    '080023000300000008002f000200000008003000010000000800340000000000',
  'hex',
);

describe('netlink messages', () => {
  it('say what an interface is', () => {
    assert.deepEqual(parse(recorded), [
      {
        what: 'link',
        type: 16,
        answerTo: 0,
        ifindex: 5,
        name: 'veth1',
        adminUp: true,
        running: true,
        carrier: true,
        heldBack: false,
        carrierUpCount: 2,
        carrierDownCount: 1,
      },
    ]);
  });

  it('come several in a datagram, with the end of a dump', () => {
    const two = [ifinfo(3, 0x1), ifinfo(4, 0x41)].map((info, i) => message(16, 2, 9, info, name(`tap${i}`)));
    const heard = parse(Buffer.concat([...two, message(3, 2, 9, u32(0))]));
    assert.deepEqual(
      heard.map(({ what, name: called, running }) => [what, called, running]),
      [
        ['link', 'tap0', false],
        ['link', 'tap1', true],
        ['done', undefined, undefined],
      ],
    );
  });

  it('tell when a dump was interrupted (C14)', () => {
    assert.deepEqual(parse(message(3, 0x10, 9, u32(0))), [
      { what: 'interrupted', answerTo: 9 },
      { what: 'done', answerTo: 9, errno: 0 },
    ]);
  });

  it('are news where they answer the request of another, even with a seq of ours', () => {
    const link = [ifinfo(3, 0x41), name('tap1')] as const;
    const heard = parse(
      messageTo(1, 16, 2, 9, ...link),
      message(16, 0, 9, ...link), // no part of a dump
      message(16, 2, 9, ...link),
      messageTo(1, 3, 0x12, 9, u32(0)),
    );
    assert.deepEqual(
      heard.map(({ what, answerTo }) => [what, answerTo]),
      [
        ['link', 0],
        ['link', 0],
        ['link', 9],
      ],
    );
  });

  it('tell when the kernel refuses a dump, and when it lost messages', () => {
    assert.deepEqual(parse(message(2, 0, 9, u32(-16 >>> 0)), message(4, 0, 0)), [
      { what: 'done', answerTo: 9, errno: 16 },
      { what: 'overrun' },
    ]);
  });

  it('have the carrier also of an interface that is switched off, and say what else holds one back', () => {
    const of = (flags: number, ...attributes: Buffer[]) =>
      parse(message(16, 0, 0, ifinfo(3, flags), name('tap1'), ...attributes)).map(
        ({ adminUp, running, carrier, heldBack }) => [adminUp, running, carrier, heldBack],
      );
    assert.deepEqual(of(0, attribute(33, Buffer.from([1]))), [[false, false, true, false]]);
    assert.deepEqual(of(0x10001, attribute(16, Buffer.from([5]))), [[true, false, true, true]]);
    assert.deepEqual(of(0x10041, attribute(16, Buffer.from([6]))), [[true, true, true, false]]);
  });

  it('have names as they are, in whatever bytes', () => {
    const nameOf = (bytes: Buffer) =>
      parse(message(16, 0, 0, ifinfo(3, 1), attribute(3, bytes))).map(({ name: called }) => called);
    assert.deepEqual(nameOf(Buffer.from('tapé\0')), ['tapé']);
    assert.deepEqual(nameOf(Buffer.from('tap\xe9\0', 'latin1')), ['tapé']);
    assert.deepEqual(nameOf(Buffer.from('tap\xff\0', 'latin1')), ['tap\u00ff']);
    assert.deepEqual(nameOf(Buffer.from('fifteen-letters')), ['fifteen-letters']);
  });

  it('of a wireless event say nothing', () => {
    assert.deepEqual(parse(message(16, 0, 0, ifinfo(4, 0x41), name('wlan0'), attribute(11, u32(0)))), []);
  });

  it('of a bridge about its ports, and those without a name, say nothing', () => {
    assert.deepEqual(
      parse(message(17, 0, 0, ifinfo(4, 0x41, 7), name('tap1')), message(16, 0, 0, ifinfo(4, 0x41))),
      [],
    );
  });

  it('bring addresses, in the form in which they are compared', () => {
    const body = (family: number) => Buffer.concat([Buffer.from([family, 24, 0, 0]), u32(4)]);
    const v6 = Buffer.from('fe800000000000000000000000000001', 'hex');
    const heard = parse(
      message(
        20,
        0,
        0,
        body(2),
        attribute(1, Buffer.from([10, 0, 0, 9])),
        attribute(2, Buffer.from([10, 0, 0, 1])),
      ),
      message(21, 0, 0, body(10), attribute(1, v6)),
    );
    assert.deepEqual(
      heard.map(({ type, ifindex, address, prefixLength }) => [type, ifindex, address, prefixLength]),
      [
        [20, 4, '10.0.0.1', 24],
        [21, 4, 'fe80::1', 24],
      ],
    );
  });

  it('that are cut or damaged are skipped and counted, wherever', () => {
    const whole = Buffer.concat([recorded, recorded]);
    for (let length = 1; length < whole.length; length++) {
      const heard = parse(whole.subarray(0, length));
      assert.ok(heard.filter(({ what }) => what === 'link').length <= Math.floor(length / recorded.length));
      if (length % recorded.length !== 0) assert.equal(heard.at(-1)?.what, 'malformed', `cut at ${length}`);
    }
  });

  it('of any bytes at all never throw, and never read beyond their end', () => {
    const mutant = fc.tuple(fc.nat(recorded.length - 1), fc.nat(255)).map(([at, byte]) => {
      const bytes = Buffer.from(recorded);
      bytes[at] = byte;
      return bytes;
    });
    const garbage = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.oneof(mutant, garbage), (bytes) => {
        for (const { what, name: called } of parse(bytes))
          if (what === 'link') assert.equal(typeof called, 'string');
      }),
      { numRuns: 10_000 },
    );
  });

  it('ask for a dump of links and of addresses', () => {
    assert.equal(
      dumpRequest('links', 7).toString('hex'),
      '2000000012000103070000000000000000000000000000000000000000000000',
    );
    assert.equal(
      dumpRequest('addresses', 8).toString('hex'),
      '180000001600010308000000000000000000000000000000',
    );
  });
});
