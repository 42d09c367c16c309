import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { FrameSplitter } from '../../../../src/sources/netlink/reader-frames.js';

describe("the frames of the reader's process", () => {
  it('come out whole and in order, however the stream is cut', () => {
    const frames = fc.array(fc.tuple(fc.integer({ min: 1, max: 4 }), fc.uint8Array({ maxLength: 40 })));
    fc.assert(
      fc.property(frames, fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }), (sent, cuts) => {
        const stream = Buffer.concat(
          sent.map(([kind, content]) => {
            const header = Buffer.alloc(5);
            header.writeUInt32LE(content.length);
            header[4] = kind;
            return Buffer.concat([header, content]);
          }),
        );
        const heard: [number, Uint8Array][] = [];
        const splitter = new FrameSplitter((kind, content) => heard.push([kind, Uint8Array.from(content)]));
        for (let at = 0, i = 0; at < stream.length; i++) {
          const end = at + cuts[i % cuts.length]!;
          splitter.push(stream.subarray(at, end));
          at = end;
        }
        assert.deepEqual(heard, sent);
      }),
    );
  });
});
