/**
 * The oracle for histories: compares what etcd's history says of each key with what it must say. Pure.
 *
 * Statuses have no identity: of `up, down, up, down` where `up, down` was expected nobody can tell which pair is the one
 * too many. So the part in which a key's two sequences differ (without what they have in common at their beginnings and
 * ends) is judged by how often each status is in it: too few are lost, too many are duplicated, and where there are
 * neither, what stands in the wrong place is reordered. All three are 0 only where the sequences are equal.
 */
import { type Status, statusName } from '../endpoints/status.js';

export interface HistoryEvent {
  readonly key: string;
  /** Null: a value that no reader could use. */
  readonly status: Status | null;
  readonly revision: number;
}

export interface Expected {
  /** By key: what must be there, in order. */
  readonly transitions: ReadonlyMap<string, readonly Status[]>;
  /** What each of these keys says before the first event; null: it is not there. */
  readonly initial: Status | null;
  /** Whether a status that a key has already may be put once more. Otherwise that is a duplicate. */
  readonly confirmations: boolean;
}

export interface Verdict {
  /** Of the expected transitions, how many are there. */
  readonly committed: number;
  readonly lost: number;
  /** What is there and should not be, events of unknown keys as well. */
  readonly duplicated: number;
  readonly reordered: number;
  readonly confirmations: number;
  /** The first difference of each of the first few keys that differ. */
  readonly differences: readonly string[];
}

const differencesMax = 3;

/** @param history in the order of revisions */
export function verify(expected: Expected, history: Iterable<HistoryEvent>): Verdict {
  const { transitions, initial } = expected;
  const byKey = new Map<string, HistoryEvent[]>();
  let confirmations = 0;
  for (const event of history) {
    const events = byKey.get(event.key) ?? [];
    const last = events.at(-1);
    const before = last === undefined ? initial : last.status;
    if (expected.confirmations && event.status !== null && event.status === before) {
      confirmations++;
      continue;
    }
    if (last === undefined) byKey.set(event.key, events);
    events.push(event);
  }

  const verdict = { committed: 0, lost: 0, duplicated: 0, reordered: 0 };
  const differences: string[] = [];
  for (const [key, wanted] of transitions) {
    const difference = compare(wanted, byKey.get(key) ?? []);
    verdict.lost += difference.lost;
    verdict.duplicated += difference.duplicated;
    verdict.reordered += difference.reordered;
    verdict.committed += wanted.length - difference.lost;
    if (difference.first !== null && differences.length < differencesMax)
      differences.push(`${key}: ${difference.first}`);
  }
  for (const [key, events] of byKey) {
    if (transitions.has(key)) continue;
    verdict.duplicated += events.length;
    if (differences.length < differencesMax)
      differences.push(`${key}: nothing was sent for this key, and it has ${events.length} revisions`);
  }
  return { ...verdict, confirmations, differences };
}

interface Difference {
  readonly lost: number;
  readonly duplicated: number;
  readonly reordered: number;
  /** In words; null: none. */
  readonly first: string | null;
}

const none: Difference = { lost: 0, duplicated: 0, reordered: 0, first: null };

function compare(wanted: readonly Status[], found: readonly HistoryEvent[]): Difference {
  const shorter = Math.min(wanted.length, found.length);
  let begin = 0;
  while (begin < shorter && wanted[begin] === found[begin]!.status) begin++;
  if (begin === wanted.length && begin === found.length) return none;
  let common = 0;
  while (common < shorter - begin && wanted.at(-1 - common) === found.at(-1 - common)!.status) common++;
  const missing = wanted.slice(begin, wanted.length - common);
  const extra = found.slice(begin, found.length - common);

  const surplus = new Map<Status | null, number>();
  for (const { status } of extra) surplus.set(status, (surplus.get(status) ?? 0) + 1);
  for (const status of missing) surplus.set(status, (surplus.get(status) ?? 0) - 1);
  let lost = 0;
  let duplicated = 0;
  for (const count of surplus.values()) {
    if (count < 0) lost -= count;
    else duplicated += count;
  }
  const reordered =
    lost + duplicated > 0 ? 0 : missing.filter((status, i) => status !== extra[i]!.status).length;
  return { lost, duplicated, reordered, first: describe(begin, wanted, found) };
}

function describe(at: number, wanted: readonly Status[], found: readonly HistoryEvent[]): string {
  const which = `transition ${at + 1} of ${wanted.length}`;
  const event = found[at];
  const want = wanted[at];
  if (event === undefined) return `${which} (${nameOf(want!)}) and what follows is not there`;
  const is = `revision ${event.revision} is ${nameOf(event.status)}`;
  return want === undefined
    ? `${is}, after all that was sent`
    : `${is}, where ${which} (${nameOf(want)}) should be`;
}

function nameOf(status: Status | null): string {
  return status === null ? 'unreadable' : statusName(status);
}
