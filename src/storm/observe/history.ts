/** etcd's own history of a storm's keys: what the verdict is based on, read after the storm and from its beginning. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { statusKey, statusValue, type Where, workloadPrefix } from '../../endpoints/key.js';
import { Status } from '../../endpoints/status.js';
import type { EtcdConnection } from '../../etcd/connection.js';
import { type WatchEvent, watchPrefix } from '../../etcd/watch.js';

export class HistoryError extends Error {
  readonly code = 'STORM_HISTORY';
}

const putAgainMs = 500;

/**
 * Every event of the host's workload statuses from this revision on. flapd must have ended. A key of the storm's own
 * is put last, below the same prefix (a valid status, since readers may be watching): when the watch shows it, it has
 * shown everything before it. Rejects with a HistoryError where history is compacted away, or after the deadline.
 */
export async function readHistory(
  client: Etcd3,
  connection: EtcdConnection,
  where: Where,
  fromRevision: number,
  deadlineMs: number,
): Promise<readonly WatchEvent[]> {
  const mark = statusKey(
    { kind: 'workload', orchestrator: 'flapd', workload: 'storm', endpoint: 'end' },
    where,
  );
  const deadline = AbortSignal.timeout(deadlineMs);
  await putPatiently(client, mark, deadline);
  const events: WatchEvent[] = [];
  const end = new AbortController();
  let compacted: number | null = null;
  let complete = false;
  await watchPrefix(connection, workloadPrefix(where), {
    fromRevision,
    signal: AbortSignal.any([end.signal, deadline]),
    onEvents: (some) => {
      for (const event of some) {
        if (event.key === mark) complete = true;
        else if (!complete) events.push(event);
      }
      if (complete) end.abort();
    },
    onCompacted: (revision) => {
      compacted = revision;
    },
  });
  await client.delete().key(mark);
  if (compacted !== null)
    throw new HistoryError(
      `etcd's history is compacted up to revision ${compacted}, and the storm began at ${fromRevision}: it cannot be verified. ` +
        'Storm against an etcd without automatic compaction, or make the storm shorter',
    );
  if (!complete) throw new HistoryError(`etcd's history could not be read within ${deadlineMs / 1000} s`);
  return events;
}

/** Etcd may just be coming back. A second put of the same is harmless. */
async function putPatiently(client: Etcd3, key: string, deadline: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await client.put(key).value(Buffer.from(statusValue(Status.down)));
      return;
    } catch (cause) {
      if (deadline.aborted) {
        const why = cause instanceof Error ? cause.message : String(cause);
        throw new HistoryError(`etcd does not answer after the storm: ${why}`, { cause });
      }
      await sleep(putAgainMs);
    }
  }
}
