/**
 * The journal on disk. Integers and doubles are little endian; times are microseconds of Unix time unless named else.
 *
 *     directory  segments journal-<number, ten digits>.log, numbers without a gap; lock; reserve (given up when the
 *                disk is full); *.new: a segment being made, when a crash left it; damaged-*: put aside by repair
 *     segment    header, then blocks. Only the last segment is written to, only at its end.
 *     header     magic "FLAPDJNL" (8), version u32, number u32, made at f64 (ms), zero u32, crc u32 of what is before.
 *                These 32 bytes have this layout in every version.
 *     block      magic u32, length u32 of the payload, synced u32, crc u32, payload
 *                One write brings one or more. `crc` is the CRC-32 (zlib's, native) of `synced` and the payload: one
 *                for a block, since one for each record costs 13 times as much (docs/decisions/001-journal-store.md).
 *                `synced` is the offset up to which this segment was known to be on disk when the block was written.
 *     payload    records, each a type byte and what follows (records.ts):
 *       1 transition  flags u8 (status, source << 2, initial << 4), endpoint u32, seq f64, observed at f64
 *       2 name        endpoint u32, length u16, status key in UTF-8
 *       3 committed   lane u16, revision f64, at f64, cursor length u32, cursor, count u16, count x (endpoint u32,
 *                     seq f64; NaN: a confirming write; negative: one is still due)
 *       4 counters    ifindex u32, running u8, up u32, down u32, length u8, name in UTF-8
 *       5 status      endpoint u32, status u8
 *       6 last seq    f64
 *       7 settled     f64: every transition with a lower seq is settled
 *
 * Invariants
 * - A segment is made under another name, with its first block, forced to disk, renamed, and its directory forced to
 *   disk, before anything is written to it. So a segment that is there is whole up to its first block's end.
 * - The first block is a checkpoint: the names, last statuses, cursors, counters and last seq of all before it. So
 *   each segment can be understood with those after it alone, and the oldest ones can be deleted.
 * - In a segment an endpoint's name comes before its first transition. Seqs rise.
 * - A segment is deleted only when the checkpoint of a later one is on disk, and only oldest first.
 * - With sync=always a block is on disk before the next write begins: its `synced` says so of those before it.
 *
 * Recovery (recovery.ts)
 * - In the last segment, a bad block after the first, with nothing good after it, or nothing that was written when the
 *   bad one was on disk already, is a torn tail: what a power cut leaves. It is cut; nothing accepted is missing.
 * - Any other bad byte is damage, and so is a segment missing from the middle. flapd does not start on it;
 *   `flapd journal repair` saves what is good.
 * - A newer version is refused and left as it is. Lengths are judged before they are believed.
 */
import { crc32 } from 'node:zlib';

export const formatVersion = 1;
export const headerBytes = 32;
export const blockHeaderBytes = 16;
const headerMagic = 'FLAPDJNL';
export const blockMagic = 0x4b4c4246; // "FBLK"
/** No block is longer than this; a longer length is none. A checkpoint of 300,000 endpoints fits. */
export const blockBytesMax = 64 * 2 ** 20;

export function segmentName(number: number): string {
  return `journal-${String(number).padStart(10, '0')}.log`;
}

/** Null for a file that is no segment. */
export function segmentNumber(name: string): number | null {
  const match = /^journal-(\d{10})\.log$/.exec(name);
  return match === null ? null : Number(match[1]);
}

export function encodeHeader(number: number, madeAtMs: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.write(headerMagic, 'latin1');
  header.writeUInt32LE(formatVersion, 8);
  header.writeUInt32LE(number, 12);
  header.writeDoubleLE(madeAtMs, 16);
  header.writeUInt32LE(crc32(header.subarray(0, 28)), 28);
  return header;
}

/** What is wrong with a segment's first bytes; null: nothing. */
export function headerProblem(bytes: Buffer, number: number): 'damaged' | 'newer' | 'renamed' | null {
  if (bytes.length < headerBytes || bytes.toString('latin1', 0, 8) !== headerMagic) return 'damaged';
  if (crc32(bytes.subarray(0, 28)) !== bytes.readUInt32LE(28)) return 'damaged';
  if (bytes.readUInt32LE(8) > formatVersion) return 'newer';
  return bytes.readUInt32LE(12) === number ? null : 'renamed';
}

/** Fills in the header of a block whose payload is in place behind it. */
export function sealBlock(block: Buffer, synced: number): void {
  block.writeUInt32LE(blockMagic, 0);
  block.writeUInt32LE(block.length - blockHeaderBytes, 4);
  block.writeUInt32LE(synced, 8);
  block.writeUInt32LE(blockCrc(block, 0, block.length), 12);
}

export function blockCrc(bytes: Buffer, start: number, end: number): number {
  return crc32(bytes.subarray(start + blockHeaderBytes, end), crc32(bytes.subarray(start + 8, start + 12)));
}
