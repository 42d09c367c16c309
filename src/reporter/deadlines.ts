/** A binary heap of endpoints by time, indexed by endpoint so that an entry can be moved or taken out in O(log n). */
export class Deadlines {
  #heap: number[] = [];
  #at = new Map<number, { time: number; position: number }>();

  get size(): number {
    return this.#heap.length;
  }

  /** The earliest time; Infinity when empty. */
  get earliest(): number {
    const top = this.#heap[0];
    return top === undefined ? Number.POSITIVE_INFINITY : this.#at.get(top)!.time;
  }

  /** Adds the item or moves it to another time. */
  set(item: number, time: number): void {
    const entry = this.#at.get(item);
    if (entry === undefined) {
      this.#at.set(item, { time, position: this.#heap.length });
      this.#heap.push(item);
      this.#up(this.#heap.length - 1);
      return;
    }
    const earlier = time < entry.time;
    entry.time = time;
    if (earlier) this.#up(entry.position);
    else this.#down(entry.position);
  }

  delete(item: number): void {
    const entry = this.#at.get(item);
    if (entry === undefined) return;
    this.#at.delete(item);
    const last = this.#heap.pop()!;
    if (last === item) return;
    this.#place(last, entry.position);
    this.#up(entry.position);
    this.#down(this.#at.get(last)!.position);
  }

  /** Takes out and returns the earliest item whose time has come; undefined when there is none. */
  takeDue(now: number): number | undefined {
    if (this.earliest > now) return undefined;
    const item = this.#heap[0]!;
    this.delete(item);
    return item;
  }

  #time(position: number): number {
    return this.#at.get(this.#heap[position]!)!.time;
  }

  #place(item: number, position: number): void {
    this.#heap[position] = item;
    this.#at.get(item)!.position = position;
  }

  #swap(a: number, b: number): void {
    const atA = this.#heap[a]!;
    this.#place(this.#heap[b]!, a);
    this.#place(atA, b);
  }

  #up(from: number): void {
    let position = from;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (this.#time(parent) <= this.#time(position)) return;
      this.#swap(parent, position);
      position = parent;
    }
  }

  #down(from: number): void {
    let position = from;
    for (;;) {
      const left = 2 * position + 1;
      if (left >= this.#heap.length) return;
      const right = left + 1;
      const child = right < this.#heap.length && this.#time(right) < this.#time(left) ? right : left;
      if (this.#time(position) <= this.#time(child)) return;
      this.#swap(position, child);
      position = child;
    }
  }
}
