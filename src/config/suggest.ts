/** `; did you mean X?` for a name that is close to one of the known ones; else nothing. */
export function didYouMean(name: string, names: readonly string[]): string {
  let closest: string | null = null;
  let least = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const other of names) {
    const edits = distance(name.toLowerCase(), other.toLowerCase());
    if (edits < least) [closest, least] = [other, edits];
  }
  return closest === null ? '' : `; did you mean ${closest}?`;
}

/** Levenshtein's. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}
