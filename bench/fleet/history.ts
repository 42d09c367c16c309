/** Holds etcd's own history against what the hosts accepted, with the oracle that storms are judged by. */
import { parseStatusValue, workloadPrefix } from '../../src/endpoints/key.js';
import { Status } from '../../src/endpoints/status.js';
import { openEtcd } from '../../src/etcd/client.js';
import { watchPrefix } from '../../src/etcd/watch.js';
import { type HistoryEvent, verify } from '../../src/storm/verify.js';
import type { HistoryReport } from './hosts.js';

export interface HistoryVerdict {
  readonly transitions: number;
  readonly lost: number;
  readonly duplicated: number;
  readonly reordered: number;
  readonly confirmations: number;
  readonly differences: readonly string[];
}

const statusesBelow = '/calico/felix/v2/no-region/host/';
const isStatus = new RegExp(`^${workloadPrefix({ host: '[^/]+', region: null })}`);

/** To be called when no host writes any more. */
export async function judgeHistory(
  etcd: string,
  { transitions, confirmations }: HistoryReport,
): Promise<HistoryVerdict> {
  const wanted = new Map(
    [...transitions].map(([key, letters]) => [
      key,
      [...letters].map((letter) => (letter === 'u' ? Status.up : Status.down)),
    ]),
  );
  const verdict = verify({ transitions: wanted, initial: null, confirmations: true }, await statusesOf(etcd));
  // A repeat that no host knows of is a transition written twice.
  const unknown = Math.max(0, verdict.confirmations - confirmations);
  return {
    transitions: [...wanted.values()].reduce((sum, { length }) => sum + length, 0),
    lost: verdict.lost,
    duplicated: verdict.duplicated + unknown,
    reordered: verdict.reordered,
    confirmations,
    differences: verdict.differences,
  };
}

async function statusesOf(etcd: string): Promise<HistoryEvent[]> {
  const client = openEtcd({ endpoints: [etcd] });
  const { header } = await client.put(`${statusesBelow}~end`).value('').exec();
  client.close();
  const last = Number(header.revision);
  const history: HistoryEvent[] = [];
  const stopping = new AbortController();
  await watchPrefix({ endpoints: [etcd] }, statusesBelow, {
    fromRevision: 1,
    onEvents: (events) => {
      for (const { key, value, revision } of events) {
        if (isStatus.test(key))
          history.push({ key, status: value === null ? Status.removed : parseStatusValue(value), revision });
        if (revision >= last) stopping.abort();
      }
    },
    onCompacted: () => {
      throw new Error("etcd's history is compacted: nothing can be said about it");
    },
    signal: stopping.signal,
  });
  return history;
}
