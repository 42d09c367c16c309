/** This host's status keys, as etcd has them. */
import type { Etcd3 } from 'etcd3';
import type { EndpointIndex } from '../../endpoints/id.js';
import { hostPrefix, parseStatusValue, type Where, workloadPrefix } from '../../endpoints/key.js';
import type { EndpointRegistry } from '../../endpoints/registry.js';
import type { Status } from '../../endpoints/status.js';
import { listPrefix } from '../../etcd/list.js';

export interface StatusListing {
  readonly revision: number;
  /** Null: a value that no reader could use. */
  readonly statuses: ReadonlyMap<EndpointIndex, Status | null>;
}

/** Below these are the status keys of a host. */
export function statusPrefixes(where: Where): readonly string[] {
  return [workloadPrefix(where), hostPrefix(where)];
}

/** Keys of a foreign shape are left alone. Rejects with etcd3's error. */
export async function listStatuses(client: Etcd3, registry: EndpointRegistry): Promise<StatusListing> {
  const statuses = new Map<EndpointIndex, Status | null>();
  let revision = 0;
  for (const prefix of statusPrefixes(registry.where)) {
    const listing = await listPrefix(client, prefix);
    // Two lists are two moments: the older one decides what may be concluded from both.
    revision = revision === 0 ? listing.revision : Math.min(revision, listing.revision);
    for (const { key, value } of listing.keys) {
      const endpoint = registry.internKey(key);
      if (endpoint !== null) statuses.set(endpoint, parseStatusValue(value));
    }
  }
  return { revision, statuses };
}
