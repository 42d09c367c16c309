import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FramePeeker } from '../../../src/felix-driver/peek.js';
import { frame } from '../../../src/sources/felix/frames.js';
import { bytesField, varintField } from '../../../src/wire/protobuf.js';

interface Seen {
  readonly messages: Buffer[];
  readonly tooLong: [number, number][];
  readonly lost: number[];
}

/** What is seen of the stream, cut there. */
function look(stream: Buffer, cuts: readonly number[] = [], frameBytesMax = 64): Seen {
  const seen: Seen = { messages: [], tooLong: [], lost: [] };
  const peeker = new FramePeeker({
    fields: new Set([1, 11]),
    frameBytesMax,
    onMessage: (message) => seen.messages.push(Buffer.from(message)),
    onTooLong: (field, length) => seen.tooLong.push([field, length]),
    onLost: (length) => seen.lost.push(length),
  });
  const at = [0, ...[...cuts].sort((a, b) => a - b), stream.length];
  for (let i = 1; i < at.length; i++) peeker.push(stream.subarray(at[i - 1], at[i]));
  return seen;
}

const number = varintField(15, Number.MAX_SAFE_INTEGER);
const matters = [
  bytesField(1),
  Buffer.concat([bytesField(11, 'workload'), number]),
  Buffer.concat([number, bytesField(11, 'with its number first')]),
  Buffer.concat([bytesField(1, Buffer.alloc(64 - 2, 7))]),
];
const passes = [
  Buffer.alloc(0),
  number,
  bytesField(2, Buffer.alloc(100_000)),
  Buffer.concat([bytesField(2, 'then what would matter'), bytesField(11, 'x')]),
  Buffer.alloc(5, 0xff),
];

describe('what is seen of a stream of frames', () => {
  it('are the messages that matter, whole, however the stream is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...matters, ...passes), { maxLength: 12 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 30 }),
        (messages, cuts) => {
          const stream = Buffer.concat(messages.map((message) => frame(message)));
          const seen = look(
            stream,
            cuts.map((cut) => Math.floor(cut * stream.length)),
          );
          const expected = messages.filter((message) => matters.includes(message as Buffer<ArrayBuffer>));
          assert.deepEqual(seen, {
            messages: expected.map((message) => Buffer.from(message)),
            tooLong: [],
            lost: [],
          });
        },
      ),
      { numRuns: 500 },
    );
  });

  it('are the same a byte at a time', () => {
    const stream = Buffer.concat([...matters, ...passes, ...matters].map((message) => frame(message)));
    const every = Array.from({ length: stream.length }, (_, i) => i);
    assert.deepEqual(look(stream, every), look(stream));
    assert.equal(look(stream).messages.length, 2 * matters.length);
  });

  it('is not one that is too long, but the next one', () => {
    const long = bytesField(11, Buffer.alloc(100));
    const stream = Buffer.concat([frame(long), frame(matters[1]!)]);
    for (const cuts of [[], [4], [9], [20], [60], [110]]) {
      const seen = look(stream, cuts);
      assert.deepEqual(seen.tooLong, [[11, long.length]]);
      assert.deepEqual(seen.messages, [Buffer.from(matters[1]!)]);
    }
  });

  for (const header of ['0000008000000000', 'ffffffffffffffff', '0000000001000000']) {
    it(`is nothing after a frame announced as ${header}`, () => {
      const stream = Buffer.concat([
        frame(matters[0]!),
        Buffer.from(header, 'hex'),
        Buffer.alloc(50),
        frame(matters[0]!),
      ]);
      for (const cuts of [[], [12], [17]]) {
        const seen = look(stream, cuts);
        assert.equal(seen.messages.length, 1);
        assert.equal(seen.lost.length, 1);
      }
    });
  }

  it('costs no memory for a frame that claims the longest length there may be', () => {
    const header = Buffer.from('ffffff7f00000000', 'hex');
    const seen = look(Buffer.concat([header, bytesField(11, Buffer.alloc(1000))]));
    assert.deepEqual(seen, { messages: [], tooLong: [[11, 2 ** 31 - 1]], lost: [] });
  });
});
