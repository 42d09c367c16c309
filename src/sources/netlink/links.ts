/**
 * The interfaces of this network namespace, from link messages and dumps. Pure.
 *
 * What an interface's carrier did between two messages is carrier.ts's part. Here: which interfaces there are, under
 * which names, and how a dump and the news that comes meanwhile fit together. The kernel fills a part of a dump under
 * a lock that it has given back when it queues that part, so news may overtake it. Hence, for as long as a dump lasts,
 * news of an interface is worth more than the dump's word on it: nothing is lost by that, for had the interface
 * changed after the news, there would be newer news.
 */
import { type CarrierState, follow, restartedSince } from './carrier.js';
import type { LinkMessage } from './messages.js';

export interface LinkEvents {
  /** The interface is there and is, or is not, running. */
  seen(ifindex: number, name: string, running: boolean): void;
  gone(ifindex: number): void;
  /** So many changes were known from the counters alone. */
  recovered(changes: number): void;
  /** For the journal: told after what followed from it. */
  counters(counters: LinkCounters): void;
}

/** How far an interface's changes are told: what its counters say beyond this is not. */
export interface LinkCounters {
  readonly ifindex: number;
  readonly name: string;
  readonly running: boolean;
  readonly upCount: number;
  readonly downCount: number;
}

interface Link extends CarrierState {
  name: string;
  /** The dump during or after which it was last heard of. */
  dump: number;
}

export class Links {
  readonly #events: LinkEvents;
  readonly #carrierCounters: boolean;
  readonly #links = new Map<number, Link>();
  readonly #remembered = new Map<number, LinkCounters>();
  readonly #goneDuringDump = new Set<number>();
  #dump = 0;

  constructor(events: LinkEvents, carrierCounters: boolean) {
    this.#events = events;
    this.#carrierCounters = carrierCounters;
  }

  get size(): number {
    return this.#links.size;
  }

  /** What an earlier life of flapd knew of an interface: what happened since is told when it is first seen. */
  remember(counters: LinkCounters): void {
    this.#remembered.set(counters.ifindex, counters);
  }

  /** A dump begins: what neither it nor news names is gone when it ends. One that did not end is forgotten. */
  beginDump(): void {
    this.#dump++;
    this.#goneDuringDump.clear();
  }

  endDump(): void {
    for (const [ifindex, { dump }] of this.#links) if (dump !== this.#dump) this.deleted(ifindex);
    this.#goneDuringDump.clear();
    this.#remembered.clear();
  }

  /** A dump's word on an interface. */
  dumped(message: Readonly<LinkMessage>): void {
    const { ifindex } = message;
    if (this.#goneDuringDump.has(ifindex) || this.#links.get(ifindex)?.dump === this.#dump) return;
    this.#is(message);
  }

  /** News: the interface is so. */
  changed(message: Readonly<LinkMessage>): void {
    this.#goneDuringDump.delete(message.ifindex);
    this.#is(message);
  }

  deleted(ifindex: number): void {
    this.#goneDuringDump.add(ifindex);
    if (this.#links.delete(ifindex)) this.#events.gone(ifindex);
  }

  #is(message: Readonly<LinkMessage>): void {
    const { ifindex, name } = message;
    let link = this.#links.get(ifindex);
    // Counters never go back: it is another interface with the same number, and the end of the old one was lost.
    if (link !== undefined && this.#carrierCounters && restartedSince(link, message)) {
      this.#links.delete(ifindex);
      this.#events.gone(ifindex);
      link = undefined;
    }
    const isNew = link === undefined;
    link ??= this.#firstSeen(message);
    const { running, upTold, downTold } = link;
    link.dump = this.#dump;
    const renamed = link.name !== name;
    link.name = name;
    if (isNew || renamed) this.#events.seen(ifindex, name, link.running);
    const beforeRunning = link.running;
    const changes = follow(link, message, this.#carrierCounters);
    for (let i = 1, now = beforeRunning; i <= changes; i++) {
      now = !now;
      this.#events.seen(ifindex, name, now);
    }
    const unseen = changes - (beforeRunning === link.running ? 0 : 1);
    if (unseen > 0) this.#events.recovered(unseen);
    if (
      !Number.isNaN(link.upTold) &&
      (isNew || renamed || running !== link.running || upTold !== link.upTold || downTold !== link.downTold)
    ) {
      this.#events.counters({
        ifindex,
        name,
        running: link.running,
        upCount: link.upTold,
        downCount: link.downTold,
      });
    }
  }

  #firstSeen(message: Readonly<LinkMessage>): Link {
    const { ifindex, name, running } = message;
    const link: Link = {
      name,
      dump: this.#dump,
      running,
      carrierTold: running,
      adminUp: message.adminUp,
      upTold: Number.NaN,
      downTold: Number.NaN,
      upCount: Number.NaN,
      downCount: Number.NaN,
    };
    const before = this.#remembered.get(ifindex);
    if (this.#carrierCounters && before !== undefined && before.name === name) {
      const restored = { ...link, upCount: before.upCount, downCount: before.downCount };
      if (!restartedSince(restored, message)) recall(link, before, message);
    }
    this.#links.set(ifindex, link);
    return link;
  }
}

/** Goes on where an earlier life of flapd stopped. */
function recall(link: Link, before: LinkCounters, message: Readonly<LinkMessage>): void {
  link.running = before.running;
  link.adminUp = before.running || message.adminUp;
  link.upTold = before.upCount;
  link.downTold = before.downCount;
  // Ups and downs alternate, so the carrier then follows from the carrier now.
  const changes = message.carrierUpCount - before.upCount + message.carrierDownCount - before.downCount;
  link.carrierTold = (changes & 1) === 0 ? message.carrier : !message.carrier;
}
