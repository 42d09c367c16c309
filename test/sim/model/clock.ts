/** Virtual time: things happen in order of their time, and at one time in the order they were asked for. */
export class Clock {
  nowMs = 0;
  #order = 0;
  #heap: { atMs: number; order: number; action: () => void }[] = [];

  at(atMs: number, action: () => void): void {
    const heap = this.#heap;
    heap.push({ atMs: Math.max(atMs, this.nowMs), order: this.#order++, action });
    let child = heap.length - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (before(heap[parent]!, heap[child]!)) break;
      [heap[parent], heap[child]] = [heap[child]!, heap[parent]!];
      child = parent;
    }
  }

  after(delayMs: number, action: () => void): void {
    this.at(this.nowMs + delayMs, action);
  }

  /** Runs all there is up to then. */
  runUntil(untilMs: number): void {
    while (this.step(untilMs));
    this.nowMs = Math.max(this.nowMs, untilMs);
  }

  /** Runs what comes next, up to `untilMs`; false when there is nothing more. */
  step(untilMs: number): boolean {
    const heap = this.#heap;
    const top = heap[0];
    if (top === undefined || top.atMs > untilMs) return false;
    const last = heap.pop()!;
    if (heap.length > 0) {
      heap[0] = last;
      let parent = 0;
      for (;;) {
        let child = 2 * parent + 1;
        if (child >= heap.length) break;
        if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
        if (before(heap[parent]!, heap[child]!)) break;
        [heap[parent], heap[child]] = [heap[child]!, heap[parent]!];
        parent = child;
      }
    }
    this.nowMs = top.atMs;
    top.action();
    return true;
  }
}

function before(a: { atMs: number; order: number }, b: { atMs: number; order: number }): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
