/** Reads a whole prefix, page by page and at one revision, so that the answer is one moment's truth. */
import type { Etcd3 } from 'etcd3';

export interface ListedKey {
  readonly key: string;
  readonly value: Buffer;
  readonly modRevision: number;
}

export interface Listing {
  /** Of etcd when the first page was read. */
  readonly revision: number;
  readonly keys: ListedKey[];
}

const compactionsMax = 3;

/** Rejects with etcd3's error. A key that is no UTF-8 comes with replacement characters: no key of ours is like that. */
export async function listPrefix(client: Etcd3, prefix: string, pageSize = 1000): Promise<Listing> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await readPages(client, prefix, pageSize);
    } catch (error) {
      // The revision of the first page was compacted away before the last one was read: start again at a newer one.
      const compacted = error instanceof Error && error.message.includes('compacted');
      if (!compacted || attempt === compactionsMax) throw error;
    }
  }
}

async function readPages(client: Etcd3, prefix: string, pageSize: number): Promise<Listing> {
  const end = prefixEnd(Buffer.from(prefix));
  const keys: ListedKey[] = [];
  let from: Buffer = Buffer.from(prefix);
  let revision = 0;
  for (;;) {
    const page = await client.kv.range({
      key: from,
      range_end: end,
      limit: pageSize,
      ...(revision === 0 ? {} : { revision: String(revision) }),
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

/** The first key after all that begin with the prefix. */
export function prefixEnd(prefix: Buffer): Buffer {
  const end = Buffer.from(prefix);
  end[end.length - 1]!++;
  return end;
}
