import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import protobuf from 'protobufjs';
import {
  bytesField,
  DecodeError,
  Reader,
  varintField,
  varintLength,
  writeVarint,
} from '../../../src/wire/protobuf.js';

const whole = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

describe('protobuf wire', () => {
  it('writes varints as protobufjs does, and reads them back', () => {
    fc.assert(
      fc.property(whole, (n) => {
        const ours = new Uint8Array(varintLength(n));
        assert.equal(writeVarint(ours, 0, n), ours.length);
        assert.deepEqual(ours, new Uint8Array(protobuf.Writer.create().uint64(n).finish()));
        assert.equal(new Reader(ours).varint(), n);
      }),
    );
  });

  it('writes and reads fields as protobufjs does', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1000 }),
        whole,
        fc.string({ unit: 'grapheme' }),
        (number, n, text) => {
          const kept = protobuf.Writer.create()
            .uint32(number * 8)
            .uint64(n)
            .uint32(number * 8 + 2)
            .string(text)
            .finish();
          const ours = Buffer.concat([varintField(number, n), bytesField(number, text)]);
          assert.deepEqual(ours, Buffer.from(kept));
          const reader = new Reader(ours);
          assert.equal(reader.tag(), number * 8);
          assert.equal(reader.varint(), n);
          assert.equal(reader.tag(), number * 8 + 2);
          assert.equal(reader.string(), text);
          assert.ok(reader.done);
        },
      ),
    );
  });

  it('skips fields of every type, and groups nested twenty thousand deep', () => {
    const { Writer } = protobuf;
    const writer = Writer.create()
      .uint32(9)
      .fixed64(1)
      .uint32(21)
      .fixed32(2)
      .uint32(26)
      .string('x')
      .uint32(32)
      .uint64(7);
    for (let i = 0; i < 20_000; i++) writer.uint32(43);
    for (let i = 0; i < 20_000; i++) writer.uint32(44);
    const reader = new Reader(writer.finish());
    let fields = 0;
    while (!reader.done) {
      reader.skip(reader.tag());
      fields++;
    }
    assert.equal(fields, 5);
  });

  it('reads a string as it is, also one that begins with a byte order mark', () => {
    const reader = new Reader(bytesField(1, '\ufeffid'));
    reader.tag();
    assert.equal(reader.string(), '\ufeffid');
  });

  it('reads doubles as protobufjs writes them', () => {
    fc.assert(
      fc.property(fc.double(), (n) => {
        const kept = protobuf.Writer.create().uint32(9).double(n).finish();
        const reader = new Reader(Buffer.concat([Buffer.from([0xff]), kept]), 1); // not at the start of its memory
        assert.equal(reader.tag(), 9);
        assert.equal(reader.double(), n);
        assert.ok(reader.done);
      }),
    );
    assert.throws(() => new Reader(new Uint8Array(7)).double(), DecodeError);
  });

  const wrong: [string, string, (reader: Reader) => unknown][] = [
    ['a varint cut short', '8080', (reader) => reader.varint()],
    ['a varint of eleven bytes', '8080808080808080808001', (reader) => reader.varint()],
    ['a varint of more than 64 bits', '80808080808080808002', (reader) => reader.varint()],
    ['field number 0', '00', (reader) => reader.tag()],
    ['a field number above 2^29 - 1', '808080808001', (reader) => reader.tag()],
    ['a field longer than the message', '0361', (reader) => reader.bytes()],
    ['a field of 2^63 bytes', '80808080808080808001', (reader) => reader.bytes()],
    ['a string that is no UTF-8', '01ff', (reader) => reader.string()],
    ['a fixed64 cut short', '0900000000', (reader) => reader.skip(reader.tag())],
    ['a group that does not end', '0b', (reader) => reader.skip(reader.tag())],
    ['the end of a group that did not begin', '0c', (reader) => reader.skip(reader.tag())],
    ['wire type 6', '0e', (reader) => reader.skip(reader.tag())],
  ];
  for (const [what, hex, read] of wrong) {
    it(`refuses ${what}`, () => {
      const bytes = Buffer.from(hex, 'hex');
      const reader = new Reader(bytes);
      assert.throws(
        () => read(reader),
        (error) => error instanceof DecodeError && error.code === 'PROTOBUF_MALFORMED',
      );
      assert.ok(reader.pos <= bytes.length);
    });
  }

  it('answers garbage with a DecodeError and nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        const reader = new Reader(bytes);
        try {
          while (!reader.done) reader.skip(reader.tag());
        } catch (error) {
          assert.ok(error instanceof DecodeError);
        }
        assert.ok(reader.pos <= bytes.length);
      }),
      { numRuns: 10_000 },
    );
  });
});
