/** A first-in first-out queue of small integers that grows as needed and never allocates per entry. */
export class Ring {
  #items = new Int32Array(16);
  #head = 0;
  size = 0;

  push(item: number): void {
    if (this.size === this.#items.length) this.#grow();
    this.#items[(this.#head + this.size) & (this.#items.length - 1)] = item;
    this.size++;
  }

  /** Back to the front: it was next in turn and could not be served. */
  unshift(item: number): void {
    if (this.size === this.#items.length) this.#grow();
    this.#head = (this.#head - 1) & (this.#items.length - 1);
    this.#items[this.#head] = item;
    this.size++;
  }

  /** The first item; undefined when empty. */
  shift(): number | undefined {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#head]!;
    this.#head = (this.#head + 1) & (this.#items.length - 1);
    this.size--;
    return item;
  }

  clear(): void {
    this.#head = 0;
    this.size = 0;
  }

  #grow(): void {
    const grown = new Int32Array(this.#items.length * 2);
    for (let i = 0; i < this.size; i++) grown[i] = this.#items[(this.#head + i) & (this.#items.length - 1)]!;
    this.#items = grown;
    this.#head = 0;
  }
}
