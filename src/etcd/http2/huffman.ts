/** The Huffman code of HTTP/2's header fields (RFC 7541, appendix B). It is canonical: the lengths say all of it. */

/** Bits of the code of each byte, and last of the end of a string. */
const lengths = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28,
  28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7,
  8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19,
  13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13,
  28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21,
  22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23,
  22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25,
  25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];
const endOfString = 256;
const root = 0;

/** Two words a node, by the next bit: the node to go to, or ~symbol. */
const tree = buildTree();

function buildTree(): Int16Array {
  const nodes = new Int16Array(2 * (lengths.length - 1));
  let free = 1;
  const symbols = lengths.map((_, symbol) => symbol).sort((a, b) => lengths[a]! - lengths[b]! || a - b);
  let code = 0;
  let bits = lengths[symbols[0]!]!;
  for (const symbol of symbols) {
    code *= 2 ** (lengths[symbol]! - bits);
    bits = lengths[symbol]!;
    let node = root;
    for (let bit = bits - 1; bit > 0; bit--) {
      const branch = 2 * node + ((code >>> bit) & 1);
      if (nodes[branch] === 0) nodes[branch] = free++;
      node = nodes[branch]!;
    }
    nodes[2 * node + (code & 1)] = ~symbol;
    code++;
  }
  return nodes;
}

/** The bytes as characters U+0000 to U+00FF. Throws a RangeError for what is no such code. */
export function decodeHuffman(bytes: Uint8Array): string {
  let text = '';
  let node = root;
  /** Since the last symbol; and whether all of them are 1. */
  let pending = 0;
  let ones = true;
  for (const byte of bytes) {
    for (let bit = 7; bit >= 0; bit--) {
      const one = (byte >>> bit) & 1;
      const next = tree[2 * node + one]!;
      if (next < 0) {
        if (~next === endOfString) throw new RangeError('the end of the string is coded within it');
        text += String.fromCharCode(~next);
        node = root;
        pending = 0;
        ones = true;
      } else {
        node = next;
        pending++;
        ones &&= one === 1;
      }
    }
  }
  if (pending > 7 || !ones) throw new RangeError('it ends within the code of a character');
  return text;
}
