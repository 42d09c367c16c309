/**
 * Header blocks of HTTP/2 (HPACK, RFC 7541), as far as gRPC needs them: what we send is written without compression, and
 * the peer is told to keep no table (session.ts), so that each block can be read by itself.
 *
 *     1iiiiiii            indexed: name and value from the static table
 *     01iiiiii            literal, name from the static table or (0) as a string, then the value; to be remembered
 *     0000iiii 0001iiii   the same, not to be remembered, or never
 *     001sssss            the size of the table from now on
 */
import { decodeHuffman } from './huffman.js';

/** What gRPC says in headers and trailers. Of names that the static table holds, only :status is wanted. */
export interface AnswerFields {
  readonly httpStatus: string | null;
  readonly grpcStatus: string | null;
  readonly grpcMessage: string | null;
}

/** Indices 8 to 14 of the static table (RFC 7541, appendix A). */
const statuses = ['200', '204', '206', '304', '400', '404', '500'];
const firstStatus = 8;
const lastStatus = firstStatus + statuses.length - 1;
const staticTableSize = 61;

const postMethod = 0x80 | 3;
const schemes = { http: 0x80 | 6, https: 0x80 | 7 };
const literal = 0;
/** Not even a proxy may keep it: a secret. */
const neverIndexed = 0x10;

/** The headers of a gRPC request. `token`: etcd's, or null. */
export function encodeRequest(
  scheme: 'http' | 'https',
  authority: string,
  path: string,
  token: string | null,
): Buffer {
  return Buffer.concat([
    Buffer.of(postMethod, schemes[scheme]),
    field(literal, ':path', path),
    field(literal, ':authority', authority),
    field(literal, 'content-type', 'application/grpc'),
    field(literal, 'te', 'trailers'),
    ...(token === null ? [] : [field(neverIndexed, 'token', token)]),
  ]);
}

function field(form: number, name: string, value: string): Buffer {
  return Buffer.concat([Buffer.of(form), string(name), string(value)]);
}

function string(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  return Buffer.concat([integer(bytes.length, 7), bytes]);
}

/** RFC 7541, section 5.1, with the bits before the prefix 0. */
function integer(value: number, prefixBits: number): Buffer {
  const max = 2 ** prefixBits - 1;
  if (value < max) return Buffer.of(value);
  const bytes = [max];
  let rest = value - max;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return Buffer.of(...bytes, rest);
}

/** Blocks that are remembered: the headers and the trailers of an answer. */
const rememberedMax = 2;

/** Reads the blocks of a connection's answers. They say the same two things again and again, which is read once. */
export class AnswerFieldsReader {
  readonly #remembered: { readonly block: Buffer; readonly fields: AnswerFields }[] = [];

  /** As decodeAnswerFields(). */
  read(block: Buffer): AnswerFields {
    for (const { block: before, fields } of this.#remembered) if (before.equals(block)) return fields;
    const fields = decodeAnswerFields(block);
    if (this.#remembered.length === rememberedMax) this.#remembered.shift();
    this.#remembered.push({ block: Buffer.from(block), fields });
    return fields;
  }
}

/** Throws a RangeError for a block that is none, or that refers to a table that the peer was told not to keep. */
export function decodeAnswerFields(block: Uint8Array): AnswerFields {
  let httpStatus: string | null = null;
  let grpcStatus: string | null = null;
  let grpcMessage: string | null = null;
  const reader = new BlockReader(block);
  while (!reader.done) {
    const first = reader.peek();
    if ((first & 0x80) !== 0) {
      const index = staticIndex(reader.integer(7), 1);
      if (index >= firstStatus && index <= lastStatus) httpStatus = statuses[index - firstStatus]!;
    } else if ((first & 0xe0) === 0x20) {
      if (reader.integer(5) !== 0) throw new RangeError('a table, though none was allowed');
    } else {
      const index = staticIndex(reader.integer((first & 0xc0) === 0x40 ? 6 : 4), 0);
      const name = index === 0 ? reader.string() : null;
      if (index >= firstStatus && index <= lastStatus) httpStatus = reader.string();
      else if (name === 'grpc-status') grpcStatus = reader.string();
      else if (name === 'grpc-message') grpcMessage = reader.string();
      else reader.skipString();
    }
  }
  return { httpStatus, grpcStatus, grpcMessage };
}

function staticIndex(index: number, min: number): number {
  if (index < min || index > staticTableSize) throw new RangeError(`there is no field ${index} in the table`);
  return index;
}

class BlockReader {
  readonly #block: Uint8Array;
  #at = 0;

  constructor(block: Uint8Array) {
    this.#block = block;
  }

  get done(): boolean {
    return this.#at >= this.#block.length;
  }

  peek(): number {
    const byte = this.#block[this.#at];
    if (byte === undefined) throw new RangeError('the block ends within a field');
    return byte;
  }

  integer(prefixBits: number): number {
    const max = 2 ** prefixBits - 1;
    let value = this.#next() & max;
    if (value < max) return value;
    for (let factor = 1; factor <= 2 ** 21; factor *= 128) {
      const byte = this.#next();
      value += (byte & 0x7f) * factor;
      if (byte < 128) return value;
    }
    throw new RangeError('a number that is too large');
  }

  string(): string {
    const huffman = (this.peek() & 0x80) !== 0;
    const bytes = this.#bytes(this.integer(7));
    return huffman ? decodeHuffman(bytes) : Buffer.from(bytes).toString('latin1');
  }

  skipString(): void {
    this.#bytes(this.integer(7));
  }

  #next(): number {
    const byte = this.peek();
    this.#at++;
    return byte;
  }

  #bytes(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.#block.length) throw new RangeError('the block ends within a string');
    const bytes = this.#block.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }
}
