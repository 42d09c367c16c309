/** Reads a segment: which of its blocks are good, and what is wrong with the rest. */
import type { JournalDirectory } from './directory.js';
import {
  blockBytesMax,
  blockCrc,
  blockHeaderBytes,
  blockMagic,
  headerBytes,
  headerProblem,
  segmentName,
  segmentNumber,
} from './format.js';

export interface Block {
  readonly start: number;
  readonly end: number;
  readonly synced: number;
}

export interface Scan {
  readonly bytes: Buffer;
  readonly header: ReturnType<typeof headerProblem>;
  readonly blocks: readonly Block[];
  /** Where the first bad block begins; null: all is good. */
  readonly badAt: number | null;
  /** Good blocks after the bad one. */
  readonly beyond: readonly Block[];
}

/** The numbers of the segments in a directory, in order. */
export function segmentsIn(directory: Pick<JournalDirectory, 'list'>): number[] {
  return directory
    .list()
    .map(segmentNumber)
    .filter((number) => number !== null)
    .sort((a, b) => a - b);
}

export function scanSegment(directory: Pick<JournalDirectory, 'read'>, number: number): Scan {
  return scanBytes(directory.read(segmentName(number)), number);
}

export function scanBytes(bytes: Buffer, number: number): Scan {
  const header = headerProblem(bytes, number);
  const blocks: Block[] = [];
  let at = headerBytes;
  while (at < bytes.length) {
    const block = blockAt(bytes, at);
    if (block === null) return { bytes, header, blocks, badAt: at, beyond: goodBlocksAfter(bytes, at + 1) };
    blocks.push(block);
    at = block.end;
  }
  // Without its first block it is not what is renamed into place when a segment is made.
  return { bytes, header, blocks, badAt: blocks.length === 0 ? headerBytes : null, beyond: [] };
}

/** Whether what is bad is only what a power cut leaves at the end of what was being written. */
export function isTornTail({ header, blocks, badAt, beyond }: Scan): boolean {
  if (header !== null || badAt === null || blocks.length === 0) return false;
  // A block that was written when the bad one was on disk already shows that the bad one was good once.
  return beyond.every(({ synced }) => synced <= badAt);
}

/** The good block that begins there; null: none does. */
function blockAt(bytes: Buffer, at: number): Block | null {
  if (at + blockHeaderBytes > bytes.length || bytes.readUInt32LE(at) !== blockMagic) return null;
  const length = bytes.readUInt32LE(at + 4);
  const end = at + blockHeaderBytes + length;
  if (length === 0 || length > blockBytesMax || end > bytes.length) return null;
  if (blockCrc(bytes, at, end) !== bytes.readUInt32LE(at + 12)) return null;
  return { start: at, end, synced: bytes.readUInt32LE(at + 8) };
}

function goodBlocksAfter(bytes: Buffer, from: number): Block[] {
  const magic = Buffer.alloc(4);
  magic.writeUInt32LE(blockMagic);
  const blocks: Block[] = [];
  for (let at = bytes.indexOf(magic, from); at >= 0; at = bytes.indexOf(magic, at)) {
    const block = blockAt(bytes, at);
    if (block === null) {
      at += 1;
    } else {
      blocks.push(block);
      at = block.end;
    }
  }
  return blocks;
}
