export interface Verdict {
  committed: number;
  lost: number;
  duplicated: number;
  reordered: number;
  confirmations: number;
  first: string | null;
}
export function verify(
  expected: ReadonlyMap<string, readonly string[]>,
  initial: string | null,
  events: readonly { key: string; status: string }[],
): Verdict {
  const got = new Map<string, string[]>();
  const verdict: Verdict = {
    committed: 0,
    lost: 0,
    duplicated: 0,
    reordered: 0,
    confirmations: 0,
    first: null,
  };
  for (const { key, status } of events) {
    const list = got.get(key) ?? [];
    got.set(key, list);
    if ((list.at(-1) ?? initial) === status) {
      verdict.confirmations++;
      continue;
    }
    list.push(status);
    verdict.committed++;
  }
  for (const [key, want] of expected) {
    const have = got.get(key) ?? [];
    if (have.join() === want.join()) continue;
    verdict.first ??= `${key}: want ${want.length}, have ${have.length}`;
    if (have.length < want.length) verdict.lost += want.length - have.length;
    else if (have.length > want.length) verdict.duplicated += have.length - want.length;
    else verdict.reordered++;
  }
  for (const key of got.keys()) if (!expected.has(key)) verdict.duplicated++;
  return verdict;
}
