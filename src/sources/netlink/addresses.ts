/**
 * The addresses of the interfaces, from news and dumps. Pure. An interface may have one address twice, with different
 * prefix lengths: it has it until both are gone. As with links, news that comes during a dump is worth more than the
 * dump's word.
 */
import type { AddressMessage } from './messages.js';

/** An interface has the address now, or no longer. */
export type AddressListener = (ifindex: number, address: string, present: boolean) => void;

interface Held {
  readonly address: string;
  /** The dump during or after which it was last heard of. */
  dump: number;
}

export class Addresses {
  readonly #listener: AddressListener;
  /** By interface, then by address and prefix length. */
  readonly #held = new Map<number, Map<string, Held>>();
  readonly #goneDuringDump = new Set<string>();
  #dump = 0;

  constructor(listener: AddressListener) {
    this.#listener = listener;
  }

  beginDump(): void {
    this.#dump++;
    this.#goneDuringDump.clear();
  }

  endDump(): void {
    for (const [ifindex, held] of this.#held)
      for (const [key, { dump }] of held) if (dump !== this.#dump) this.#remove(ifindex, key);
    this.#goneDuringDump.clear();
  }

  dumped(message: Readonly<AddressMessage>): void {
    const { ifindex, address } = message;
    const key = keyOf(message);
    if (!this.#goneDuringDump.has(`${ifindex} ${key}`)) this.#add(ifindex, key, address);
  }

  changed({ ifindex, address, prefixLength }: Readonly<AddressMessage>, present: boolean): void {
    const key = keyOf({ address, prefixLength });
    if (present) {
      this.#goneDuringDump.delete(`${ifindex} ${key}`);
      this.#add(ifindex, key, address);
    } else {
      this.#goneDuringDump.add(`${ifindex} ${key}`);
      this.#remove(ifindex, key);
    }
  }

  /** Its addresses went with it: nobody need be told. */
  linkGone(ifindex: number): void {
    this.#held.delete(ifindex);
  }

  #add(ifindex: number, key: string, address: string): void {
    const held = this.#held.get(ifindex) ?? new Map<string, Held>();
    this.#held.set(ifindex, held);
    const known = held.get(key);
    if (known !== undefined) {
      known.dump = this.#dump;
      return;
    }
    const had = has(held, address);
    held.set(key, { address, dump: this.#dump });
    if (!had) this.#listener(ifindex, address, true);
  }

  #remove(ifindex: number, key: string): void {
    const held = this.#held.get(ifindex);
    const known = held?.get(key);
    if (held === undefined || known === undefined) return;
    held.delete(key);
    if (held.size === 0) this.#held.delete(ifindex);
    if (!has(held, known.address)) this.#listener(ifindex, known.address, false);
  }
}

function has(held: ReadonlyMap<string, Held>, address: string): boolean {
  for (const other of held.values()) if (other.address === address) return true;
  return false;
}

function keyOf({ address, prefixLength }: Omit<AddressMessage, 'ifindex'>): string {
  return `${address}/${prefixLength}`;
}
