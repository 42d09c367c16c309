/** What etcd has, against what is known: at the start (seed), and again and again (resync; docs/design.md, section 10). */
import type { EndpointIndex } from '../endpoints/id.js';
import { Source, Status } from '../endpoints/status.js';
import { Phase, unknown } from './endpoint-table.js';
import { none } from './pending.js';
import type { Queues } from './queues.js';

export interface Corrections {
  readonly put: number;
  readonly repaired: number;
  readonly deleted: number;
}

/**
 * What etcd had under this host's status keys when the claim was taken. Null: it could not be listed (a role that
 * may only write). What was first seen of an endpoint before now and is just what etcd has is passed over.
 */
export function seed(
  queues: Queues,
  listed: Iterable<readonly [EndpointIndex, Status | null]> | null,
  nowMs: number,
): void {
  const { table, pool } = queues;
  const { known, head, pending } = table;
  const inEtcd = new Map<EndpointIndex, Status | null>(listed ?? []);
  for (const [endpoint, status] of inEtcd) {
    if (known[endpoint] !== unknown || status === null) continue;
    known[endpoint] = status;
  }
  if (listed !== null) {
    for (let endpoint = 0 as EndpointIndex; endpoint < table.size; endpoint++) {
      const slot = pending[endpoint] === 0 ? none : head[endpoint]!;
      if (slot === none || pool.initial[slot] === 0) continue;
      const status = inEtcd.has(endpoint) ? inEtcd.get(endpoint) : Status.removed;
      if (pool.status[slot] === status) queues.passOver(endpoint, nowMs);
    }
  }
  queues.seeded = true;
}

/** To be called before etcd's keys are listed. */
export function beginResync(queues: Queues): void {
  queues.resyncRun++;
  const { pending, phase, busyInResync, size } = queues.table;
  for (let endpoint = 0; endpoint < size; endpoint++) {
    if (pending[endpoint]! > 0 || phase[endpoint] === Phase.inflight)
      busyInResync[endpoint] = queues.resyncRun;
  }
}

/**
 * What etcd has: null is an unreadable value. Queues what differs, and returns how many corrections of each sort. An
 * endpoint that was busy since beginResync() is not judged, and neither is one whose last status etcd would not take.
 * `inSync`: all sources have handed over what exists, so that a key of no known endpoint is stale.
 */
export function judge(
  queues: Queues,
  listed: ReadonlyMap<EndpointIndex, Status | null>,
  inSync: boolean,
  nowMs: number,
): Corrections {
  const { table } = queues;
  const { setAside, known, desired, pending, busyInResync, size } = table;
  const corrections = { put: 0, repaired: 0, deleted: 0 };
  for (let endpoint = 0 as EndpointIndex; endpoint < size; endpoint++) {
    if (
      !table.has(endpoint) ||
      setAside[endpoint] === 1 ||
      pending[endpoint]! > 0 ||
      busyInResync[endpoint] === queues.resyncRun
    )
      continue;
    if (desired[endpoint] === unknown) {
      // No source has said a word of it: what etcd has is left from before.
      if (!inSync || !listed.has(endpoint)) continue;
      queues.accept(endpoint, Status.removed, Source.resync, nowMs);
      corrections.deleted++;
      continue;
    }
    if (desired[endpoint] !== known[endpoint]) {
      // It was seen while the queues were full.
      if (queues.observe(endpoint, desired[endpoint] as Status, Source.resync, nowMs) === 'accepted')
        corrections.put++;
      continue;
    }
    const has = listed.get(endpoint);
    const expected = known[endpoint] as Status;
    if (expected === Status.removed) {
      if (has === undefined || !inSync) continue;
      queues.accept(endpoint, Status.removed, Source.resync, nowMs);
      corrections.deleted++;
    } else if (has !== expected) {
      queues.accept(endpoint, expected, Source.resync, nowMs);
      corrections[has === undefined ? 'put' : 'repaired']++;
    }
  }
  return corrections;
}
