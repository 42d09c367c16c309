/**
 * What etcd's history must read, and the comparison with what it does read.
 * The oracle is told of every transition that an instance accepted and of every event that changes what may be
 * expected of it; it knows nothing of how the core works.
 */
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import type { Status } from '../../../src/endpoints/status.js';
import type { ModelEtcd } from './etcd.js';

/** must: exactly once. may: at most once (the world lost it, not flapd). never: it must not be there. */
export type Expectation = 'must' | 'may' | 'never';

const weight: Record<Expectation, number> = { never: 0, may: 1, must: 2 };

export interface Accepted {
  /** Which life of flapd accepted it; a seq may be given again only by another life whose journal was lost. */
  readonly life: number;
  readonly seq: number;
  readonly endpoint: EndpointIndex;
  readonly status: Status;
  /** The first sight of an endpoint of which nothing was known: no transition, if etcd turns out to have that status. */
  readonly initial: boolean;
  expected: Expectation;
}

export class Oracle {
  readonly accepted: Accepted[] = [];

  accept(life: number, seq: number, endpoint: EndpointIndex, status: Status, initial: boolean): Accepted {
    const entry: Accepted = { life, seq, endpoint, status, initial, expected: 'must' };
    this.accepted.push(entry);
    return entry;
  }

  /** Problems found: empty when all is well. */
  check(etcd: ModelEtcd, endpoints: number): string[] {
    const problems: string[] = [];
    const byEndpoint = new Map<EndpointIndex, Accepted[]>();
    for (const entry of this.accepted) {
      const list = byEndpoint.get(entry.endpoint) ?? [];
      list.push(entry);
      byEndpoint.set(entry.endpoint, list);
    }
    for (let endpoint = 0 as EndpointIndex; endpoint < endpoints; endpoint++) {
      problems.push(...this.#checkEndpoint(endpoint, byEndpoint.get(endpoint) ?? [], etcd));
    }
    return problems;
  }

  #checkEndpoint(endpoint: EndpointIndex, expected: readonly Accepted[], etcd: ModelEtcd): string[] {
    const history = etcd.history(endpoint).filter((revision) => !Number.isNaN(revision.seq));
    const bySeq = new Map<number, Accepted>();
    for (const entry of expected) {
      const other = bySeq.get(entry.seq);
      // A seq may be given again after the journal was lost, if etcd never saw the first one.
      if (other === undefined || weight[entry.expected] >= weight[other.expected])
        bySeq.set(entry.seq, entry);
    }
    const problems: string[] = [];
    const seen = new Set<number>();
    let last = 0;
    for (const { seq, revision, status } of history) {
      const entry = bySeq.get(seq);
      const at = `endpoint ${endpoint}, seq ${seq}, revision ${revision}`;
      if (seen.has(seq)) problems.push(`duplicated: ${at}`);
      else if (seq <= last) problems.push(`reordered: ${at} after seq ${last}`);
      if (entry === undefined) problems.push(`not accepted: ${at}`);
      else if (entry.expected === 'never') problems.push(`must not be there: ${at}`);
      else if (entry.status !== status) problems.push(`wrong status: ${at}`);
      seen.add(seq);
      last = Math.max(last, seq);
    }
    for (const entry of bySeq.values()) {
      if (entry.expected === 'must' && !seen.has(entry.seq))
        problems.push(`lost: endpoint ${endpoint}, seq ${entry.seq}`);
    }
    return problems;
  }
}
