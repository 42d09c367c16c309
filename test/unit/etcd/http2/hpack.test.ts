import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AnswerFieldsReader, decodeAnswerFields, encodeRequest } from '../../../../src/etcd/http2/hpack.js';
import { decodeHuffman } from '../../../../src/etcd/http2/huffman.js';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const none = { httpStatus: null, grpcStatus: null, grpcMessage: null };

describe('the Huffman code', () => {
  // RFC 7541, appendices C.4 and C.6.
  for (const [code, text] of [
    ['f1e3 c2e5 f23a 6ba0 ab90 f4ff', 'www.example.com'],
    ['a8eb 1064 9cbf', 'no-cache'],
    ['25a8 49e9 5ba9 7d7f', 'custom-key'],
    ['6402', '302'],
    ['d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff', 'Mon, 21 Oct 2013 20:13:21 GMT'],
    ['9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3', 'https://www.example.com'],
    ['', ''],
  ] as const) {
    it(`reads ${JSON.stringify(text)}`, () => assert.equal(decodeHuffman(hex(code)), text));
  }

  for (const [code, what] of [
    ['ff ff ff ff', 'the end of the string within it'],
    ['6402 ff', 'more than seven bits of padding'],
    ['64', 'padding that is none'],
  ] as const) {
    it(`refuses ${what}`, () => assert.throws(() => decodeHuffman(hex(code)), RangeError));
  }
});

describe('header fields of an answer', () => {
  for (const [what, block, fields] of [
    ['indexed', '88', { ...none, httpStatus: '200' }],
    ['indexed, one that nobody wants', '88 90', { ...none, httpStatus: '200' }],
    ['after the size of a table that must be empty', '20 8d', { ...none, httpStatus: '404' }],
    ['literal, with a name from the table', '48 03 353033', { ...none, httpStatus: '503' }],
    ['never indexed, with a name from the table', '18 82 6402', { ...none, httpStatus: '302' }],
    [
      'literal, with a name of their own',
      `00 0b ${ascii('grpc-status')} 01 38`,
      { ...none, grpcStatus: '8' },
    ],
    [
      'to be remembered, which does no harm',
      `40 0b ${ascii('grpc-status')} 01 30 40 0c ${ascii('grpc-message')} 02 ${ascii('ok')}`,
      { ...none, grpcStatus: '0', grpcMessage: 'ok' },
    ],
    [
      'of a length beyond the prefix',
      `00 03 ${ascii('abc')} 7f 01 ${'61'.repeat(128)} 88`,
      { ...none, httpStatus: '200' },
    ],
    ['none at all', '', none],
    ['from a table that was not allowed', 'be', null],
    ['with a name from such a table', '7e 01 30', null],
    ['with index 0', '80', null],
    ['with a table that was not allowed', '3f e1 1f', null],
    ['cut off in a string', '00 0b 6772', null],
    ['cut off before its value', `00 0b ${ascii('grpc-status')}`, null],
    ['cut off in a number', '7f ff', null],
    ['with a number without end', `7f ${'ff'.repeat(20)} 01`, null],
  ] as const) {
    it(`are ${fields === null ? 'refused' : 'read'}: ${what}`, () => {
      if (fields === null) assert.throws(() => decodeAnswerFields(hex(block)), RangeError);
      else assert.deepEqual(decodeAnswerFields(hex(block)), fields);
    });
  }
});

describe('header fields of a request', () => {
  it('are literals, and its token is one that no proxy may keep', () => {
    const block = encodeRequest('https', 'etcd:2379', '/a', 'secret');
    assert.deepEqual([...block.subarray(0, 2)], [0x83, 0x87]);
    const at = block.indexOf('token') - 2;
    assert.equal(block[at], 0x10);
    assert.equal(encodeRequest('http', 'etcd:2379', '/a', null).includes('token'), false);
  });

  it('may be long', () => {
    const token = 'x'.repeat(1000);
    const block = encodeRequest('http', 'etcd:2379', '/a', token);
    assert.deepEqual([...block.subarray(-1003, -1000)], [0x7f, 0xe9, 0x06]); // 127 + 0x69 + 6 * 128
  });
});

function ascii(text: string): string {
  return Buffer.from(text).toString('hex');
}

describe("a connection's answers", () => {
  const ok = { block: hex('88'), fields: { ...none, httpStatus: '200' } };
  const gone = { block: hex('8d'), fields: { ...none, httpStatus: '404' } };
  const failed = { block: hex('8e'), fields: { ...none, httpStatus: '500' } };

  it('are read block by block, whatever was said before and however often', () => {
    const reader = new AnswerFieldsReader();
    for (const { block, fields } of [ok, gone, ok, gone, failed, failed, ok, gone, ok])
      assert.deepEqual(reader.read(block), fields);
  });

  it('are remembered by what they said, not by where it lay', () => {
    const reader = new AnswerFieldsReader();
    const buffer = Buffer.from(ok.block);
    assert.deepEqual(reader.read(buffer), ok.fields);
    gone.block.copy(buffer);
    assert.deepEqual(reader.read(buffer), gone.fields);
  });

  it('are refused each time where they are none', () => {
    const reader = new AnswerFieldsReader();
    for (let i = 0; i < 2; i++) assert.throws(() => reader.read(hex('ff')), RangeError);
  });
});
