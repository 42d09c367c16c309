/** Says once that something goes wrong, and once that it is over and how often it happened. Pure: time is given. */
export class Episodes {
  readonly #open = new Map<string, { count: number; beganAtMs: number }>();

  /** True for the first time of an episode: that one is worth a log line. */
  happened(what: string, nowMs: number): boolean {
    const episode = this.#open.get(what);
    if (episode !== undefined) {
      episode.count++;
      return false;
    }
    this.#open.set(what, { count: 1, beganAtMs: nowMs });
    return true;
  }

  /** The episode is over; null where there was none. */
  over(what: string, nowMs: number): { count: number; lastedMs: number } | null {
    const episode = this.#open.get(what);
    if (episode === undefined) return null;
    this.#open.delete(what);
    return { count: episode.count, lastedMs: nowMs - episode.beganAtMs };
  }

  get open(): Iterable<string> {
    return this.#open.keys();
  }
}
