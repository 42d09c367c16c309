/**
 * The kernel's news of interfaces: one rtnetlink socket that is subscribed first and asked for a dump then. Dump and
 * news come through the same queue, so what is later in it is later in time, and nothing old can overwrite anything new.
 */
import { Protocol, RawNetlinkSocket } from 'netlink';
import type { EndpointSource } from '../source.js';
import { type LinkCounters, Links } from './links.js';
import {
  type AddressMessage,
  dumpRequest,
  type LinkMessage,
  MessageParser,
  MessageType,
} from './messages.js';

/** What interfaces do, in order. Times are Unix microseconds. */
export interface NetlinkEvents {
  linkSeen(ifindex: number, name: string, running: boolean, atUs: number): void;
  linkGone(ifindex: number, atUs: number): void;
  address(ifindex: number, address: string, present: boolean, atUs: number): void;
  /** All that existed at the start has been told. */
  inSync(): void;
  /** For the journal: the interface's carrier counters have changed. */
  counters(counters: LinkCounters): void;
}

export interface NetlinkFigures {
  messages: number;
  overruns: number;
  malformed: number;
  recoveredFlaps: number;
}

export interface NetlinkOptions {
  readonly receiveBufferBytes: number;
  readonly carrierCounters: boolean;
  readonly nowUs: () => number;
  readonly events: NetlinkEvents;
  readonly log: {
    debug(fields: object, message: string): void;
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
  };
}

const group = { link: 1, ipv4Address: 5, ipv6Address: 9 } as const;
/** A dump whose end does not come was lost with an overrun. */
const dumpDeadlineMs = 5000;
/** Storms overrun again and again: one dump a second is what they get. */
const dumpEveryMs = 1000;
const reopenAfterMs = 1000;

export class NetlinkSource implements EndpointSource {
  readonly name = 'netlink';
  readonly figures: NetlinkFigures = { messages: 0, overruns: 0, malformed: 0, recoveredFlaps: 0 };
  readonly #options: NetlinkOptions;
  readonly #links: Links;
  readonly #parser: MessageParser;
  #socket: RawNetlinkSocket | null = null;
  #stopped = false;
  #inSync = false;
  #atUs = 0;
  #seq = 1;
  #dump: { seq: number; what: 'links' | 'addresses'; interrupted: boolean } | null = null;
  #dumpedAtMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | null = null;
  #overrunLogged = false;

  constructor(options: NetlinkOptions) {
    this.#options = options;
    const { events, carrierCounters } = options;
    this.#links = new Links(
      {
        seen: (ifindex, name, running) => events.linkSeen(ifindex, name, running, this.#atUs),
        gone: (ifindex) => events.linkGone(ifindex, this.#atUs),
        recovered: (changes) => {
          this.figures.recoveredFlaps += changes;
        },
      },
      carrierCounters,
    );
    this.#parser = new MessageParser({
      link: (type, message) => this.#onLink(type, message),
      address: (type, message) => this.#onAddress(type, message),
      done: (seq, errno) => this.#onDone(seq, errno),
      interrupted: (seq) => {
        if (this.#dump?.seq === seq) this.#dump.interrupted = true;
      },
      malformed: () => {
        this.figures.malformed++;
      },
    });
  }

  get inSync(): boolean {
    return this.#inSync;
  }

  get links(): number {
    return this.#links.size;
  }

  /** See Links.remember(); before start(). */
  remember(counters: LinkCounters): void {
    this.#links.remember(counters);
  }

  /** Resolves when the socket is open; inSync comes with the end of the dump. Rejects where there is no rtnetlink. */
  async start(): Promise<void> {
    this.#open();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#clearTimer();
    this.#socket?.close();
    this.#socket = null;
  }

  #open(): void {
    const { receiveBufferBytes, log } = this.#options;
    const socket = new RawNetlinkSocket(Protocol.ROUTE, {
      messagePeeking: false,
      msgBufferSize: 32 * 1024, // the kernel's dumps come in parts of up to this
      recvBufferSize: receiveBufferBytes,
      sendBufferSize: 64 * 1024,
    });
    for (const membership of Object.values(group)) socket.addMembership(membership);
    socket.on('message', (datagram) => this.#onDatagram(datagram));
    socket.on('truncatedMessage', () => {
      this.figures.malformed++;
      this.#dumpSoon();
    });
    socket.on('error', (error) => this.#onError(error));
    this.#socket = socket;
    const granted = socket.getRecvBufferSize();
    // The kernel doubles what it is asked for, to have room for its own bookkeeping.
    if (granted < 2 * receiveBufferBytes) {
      log.info(
        { askedBytes: receiveBufferBytes, grantedBytes: granted / 2 },
        'the kernel grants a smaller netlink buffer than asked for; net.core.rmem_max sets the limit',
      );
    }
    this.#startDump('links');
  }

  #onDatagram(datagram: Buffer): void {
    this.#atUs = this.#options.nowUs();
    this.figures.messages++;
    this.#parser.parse(datagram);
  }

  #onLink(type: number, message: Readonly<LinkMessage>): void {
    if (type === MessageType.delLink) {
      this.#links.deleted(message.ifindex);
      return;
    }
    this.#links.changed(message);
    const counters = this.#links.counters(message.ifindex);
    if (counters !== null) this.#options.events.counters(counters);
  }

  #onAddress(type: number, message: Readonly<AddressMessage>): void {
    this.#options.events.address(
      message.ifindex,
      message.address,
      type === MessageType.newAddress,
      this.#atUs,
    );
  }

  #onError(error: Error & { code?: string }): void {
    if (this.#stopped) return;
    const { log } = this.#options;
    if (error.code === 'ENOBUFS') {
      this.figures.overruns++;
      if (!this.#overrunLogged) {
        this.#overrunLogged = true;
        log.warn(
          {},
          'the kernel dropped netlink messages, since they came faster than they were read: reading all interfaces anew. ' +
            'A larger netlink.receiveBuffer helps (net.core.rmem_max limits it)',
        );
      }
      this.#dump = null;
      this.#dumpSoon();
      return;
    }
    log.warn({ error: error.message }, 'the netlink socket failed: opening another one');
    this.#socket?.close();
    this.#socket = null;
    this.#dump = null;
    this.#schedule(reopenAfterMs, () => this.#reopen());
  }

  #reopen(): void {
    try {
      this.#open();
    } catch (error) {
      this.#options.log.warn({ error: String(error) }, 'no netlink socket yet');
      this.#schedule(reopenAfterMs, () => this.#reopen());
    }
  }

  #dumpSoon(): void {
    const waitMs = Math.max(0, this.#dumpedAtMs + dumpEveryMs - performance.now());
    this.#schedule(waitMs, () => this.#startDump('links'));
  }

  #startDump(what: 'links' | 'addresses'): void {
    this.#dumpedAtMs = performance.now();
    const seq = this.#seq++;
    this.#dump = { seq, what, interrupted: false };
    if (what === 'links') this.#links.beginDump();
    this.#socket?.send(dumpRequest(what, seq), {}, (error) => {
      if (error)
        this.#options.log.warn({ error: error.message }, 'the kernel did not take the request for a dump');
    });
    this.#schedule(dumpDeadlineMs, () => this.#startDump('links'));
  }

  #onDone(seq: number, errno: number): void {
    const dump = this.#dump;
    if (dump === null || dump.seq !== seq) return;
    this.#dump = null;
    this.#clearTimer();
    if (dump.interrupted || errno !== 0) {
      this.#options.log.debug({ errno }, 'something changed while the kernel was being asked: asking again');
      this.#schedule(errno === 0 ? 0 : dumpEveryMs, () => this.#startDump(dump.what));
      return;
    }
    if (dump.what === 'links') {
      this.#links.endDump();
      this.#startDump('addresses');
      return;
    }
    this.#overrunLogged = false;
    if (this.#inSync) return;
    this.#inSync = true;
    this.#options.events.inSync();
  }

  #schedule(afterMs: number, action: () => void): void {
    this.#clearTimer();
    this.#timer = setTimeout(() => {
      this.#timer = null;
      if (!this.#stopped) action();
    }, afterMs);
  }

  #clearTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
