/**
 * The interfaces of this network namespace, and the flaps that the kernel's messages do not show. Pure.
 *
 * IFF_RUNNING follows the carrier late: for up to a second the kernel merges what happens (linkwatch), so twenty
 * detach/attach cycles of a tap show one change. But every message carries the interface's carrier counters, which
 * count every one. What they count beyond what was told is told too, in its order: alternating, and never beyond the
 * state that the message itself gives. What they count and IFF_RUNNING has not followed yet stays open until it does,
 * so that no change is told twice. A change of IFF_RUNNING that they do not count (an administrator's down and up) is
 * told as it is.
 */
import type { LinkMessage } from './messages.js';

export interface LinkEvents {
  /** The interface is there and is, or is not, running. */
  seen(ifindex: number, name: string, running: boolean): void;
  gone(ifindex: number): void;
  /** So many changes were known from the counters alone. */
  recovered(changes: number): void;
}

export interface LinkCounters {
  readonly ifindex: number;
  readonly name: string;
  readonly running: boolean;
  readonly upCount: number;
  readonly downCount: number;
}

interface Link {
  name: string;
  running: boolean;
  /** Changes told so far, on the scale of the kernel's counters. */
  upTold: number;
  downTold: number;
  dump: number;
}

/** Counters are 32 bits and wrap; a step larger than this is no step but another interface or a wrapped one. */
const stepMax = 1_000_000;

export class Links {
  readonly #events: LinkEvents;
  readonly #carrierCounters: boolean;
  readonly #links = new Map<number, Link>();
  readonly #remembered = new Map<number, LinkCounters>();
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

  counters(ifindex: number): LinkCounters | null {
    const link = this.#links.get(ifindex);
    if (link === undefined || Number.isNaN(link.upTold)) return null;
    return {
      ifindex,
      name: link.name,
      running: link.running,
      upCount: link.upTold,
      downCount: link.downTold,
    };
  }

  /** A dump begins: what neither it nor a later message names is gone when it ends. */
  beginDump(): void {
    this.#dump++;
  }

  endDump(): void {
    for (const [ifindex, { dump }] of this.#links) if (dump !== this.#dump) this.deleted(ifindex);
    this.#remembered.clear();
  }

  deleted(ifindex: number): void {
    if (this.#links.delete(ifindex)) this.#events.gone(ifindex);
  }

  /** A message says that the interface is so. */
  changed(message: Readonly<LinkMessage>): void {
    const { ifindex, name, running } = message;
    const link = this.#links.get(ifindex) ?? this.#firstSeen(message);
    link.dump = this.#dump;
    if (link.name !== name) {
      link.name = name;
      this.#events.seen(ifindex, name, link.running);
    }
    if (this.#carrierCounters && !Number.isNaN(message.carrierUpCount)) this.#count(link, message);
    if (link.running !== running) this.#tell(link, ifindex, running);
  }

  #firstSeen(message: Readonly<LinkMessage>): Link {
    const { ifindex, name, running, carrierUpCount, carrierDownCount } = message;
    const before = this.#remembered.get(ifindex);
    const same = before !== undefined && before.name === name;
    const link: Link = {
      name,
      running: same ? before.running : running,
      upTold: same ? before.upCount : carrierUpCount,
      downTold: same ? before.downCount : carrierDownCount,
      dump: this.#dump,
    };
    this.#links.set(ifindex, link);
    this.#events.seen(ifindex, name, link.running);
    return link;
  }

  /** Tells the changes that the counters know of, as far as the message's own state has followed them. */
  #count(link: Link, message: Readonly<LinkMessage>): void {
    const { ifindex, running, adminUp, carrierUpCount, carrierDownCount } = message;
    let ups = carrierUpCount - link.upTold;
    let downs = carrierDownCount - link.downTold;
    const sane = ups >= 0 && downs >= 0 && ups + downs <= stepMax;
    // Switched off by an administrator, it does not run, whatever its carrier does.
    if (!sane || Number.isNaN(ups) || (!adminUp && !link.running)) {
      link.upTold = carrierUpCount;
      link.downTold = carrierDownCount;
      return;
    }
    let told = 0;
    // Down and up again (or up and down), as often as both were counted; the last change that is seen by itself, if
    // there is one, is not among them.
    const seenUp = running && !link.running ? 1 : 0;
    const seenDown = !running && link.running ? 1 : 0;
    for (let pairs = Math.min(ups - seenUp, downs - seenDown); pairs > 0; pairs--) {
      this.#tell(link, ifindex, !link.running);
      this.#tell(link, ifindex, !link.running);
      told += 2;
      ups--;
      downs--;
    }
    if (seenUp === 1 && ups > 0) ups--;
    if (seenDown === 1 && downs > 0) downs--;
    link.upTold = carrierUpCount - ups;
    link.downTold = carrierDownCount - downs;
    if (told > 0) this.#events.recovered(told);
  }

  #tell(link: Link, ifindex: number, running: boolean): void {
    link.running = running;
    this.#events.seen(ifindex, link.name, running);
  }
}
