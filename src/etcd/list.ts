/** Reads a whole prefix, page by page and at one revision, so that the answer is one moment's truth. */
import type { Etcd3 } from 'etcd3';
import { messageOf } from './classify.js';
import { prefixEnd } from './prefix.js';

export interface ListedKey {
  /** Bytes that are no UTF-8 come as replacement characters: no key of Calico's or ours has them. */
  readonly key: string;
  readonly value: Buffer;
  readonly modRevision: number;
}

export interface Listing {
  /** etcd's when the first page was read: a watch from the next one on misses nothing. */
  readonly revision: number;
  /** In the order of their bytes. */
  readonly keys: ListedKey[];
}

const pageSizeDefault = 500;
const attemptsMax = 3;

/** Rejects with etcd3's error, which classify() understands. */
export async function listPrefix(
  client: Etcd3,
  prefix: string,
  { pageSize = pageSizeDefault }: { pageSize?: number } = {},
): Promise<Listing> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await readPages(client, Buffer.from(prefix), pageSize);
    } catch (error) {
      // The revision of the first page was compacted away before the last one was read: again, at a newer one.
      if (attempt === attemptsMax || !messageOf(error).includes('has been compacted')) throw error;
    }
  }
}

async function readPages(client: Etcd3, prefix: Buffer, pageSize: number): Promise<Listing> {
  const end = prefixEnd(prefix);
  const keys: ListedKey[] = [];
  let from: Buffer = prefix.length === 0 ? Buffer.from([0]) : prefix;
  let revision = 0;
  for (;;) {
    const page = await client.kv.range({
      key: from,
      range_end: end,
      limit: pageSize,
      ...(revision !== 0 && { revision: String(revision) }),
    });
    if (revision === 0) revision = Number(page.header.revision);
    for (const { key, value, mod_revision } of page.kvs) {
      keys.push({ key: key.toString('utf8'), value, modRevision: Number(mod_revision) });
    }
    const last = page.kvs.at(-1);
    if (!page.more || last === undefined) return { revision, keys };
    from = Buffer.concat([last.key, Buffer.from([0])]);
  }
}
