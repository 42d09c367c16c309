/** Waits until `look` gives something true, and returns it; fails with what it last saw. */
export async function until<Seen>(
  what: string,
  look: () => Seen | Promise<Seen>,
  { deadlineMs = 10_000, everyMs = 10 }: { deadlineMs?: number; everyMs?: number } = {},
): Promise<NonNullable<Seen>> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const seen = await look();
    if (seen) return seen;
    if (performance.now() > endMs) {
      throw new Error(`waited ${deadlineMs} ms for ${what}; last seen: ${JSON.stringify(seen)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
