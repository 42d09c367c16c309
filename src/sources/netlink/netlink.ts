/**
 * The kernel's news of interfaces: one rtnetlink socket that is subscribed first and asked for a dump then. One socket
 * and not two, so that news and dump come in one order; what that order still leaves open is in links.ts.
 */
import { Protocol, RawNetlinkSocket } from 'netlink';
import type { EndpointSource } from '../source.js';
import { Addresses } from './addresses.js';
import { Dump } from './dump.js';
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
  /** In canonical form (endpoints/ip.ts). */
  address(ifindex: number, address: string, present: boolean, atUs: number): void;
  /** All that existed at the start has been told. */
  inSync(): void;
  /** For the journal: the interface's carrier counters have changed. Told after the changes that they count. */
  counters(counters: LinkCounters): void;
}

export interface NetlinkFigures {
  /** Datagrams: news comes one by one, a dump several messages in each. */
  messages: number;
  overruns: number;
  malformed: number;
  /** Changes known from the carrier counters alone. */
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
const reopenFirstMs = 100;
const reopenMostMs = 10_000;

export class NetlinkSource implements EndpointSource {
  readonly name = 'netlink';
  readonly figures: NetlinkFigures = { messages: 0, overruns: 0, malformed: 0, recoveredFlaps: 0 };
  readonly #options: NetlinkOptions;
  readonly #links: Links;
  readonly #addresses: Addresses;
  readonly #parser: MessageParser;
  readonly #dump: Dump;
  #socket: RawNetlinkSocket | null = null;
  #port = 0;
  #stopped = false;
  #inSync = false;
  #atUs = 0;
  #overrunLogged = false;
  #reopenTimer: NodeJS.Timeout | null = null;
  #reopenMs = reopenFirstMs;

  constructor(options: NetlinkOptions) {
    this.#options = options;
    const { events, carrierCounters, log } = options;
    this.#links = new Links(
      {
        seen: (ifindex, name, running) => events.linkSeen(ifindex, name, running, this.#atUs),
        gone: (ifindex) => {
          this.#addresses.linkGone(ifindex);
          events.linkGone(ifindex, this.#atUs);
        },
        recovered: (changes) => {
          this.figures.recoveredFlaps += changes;
        },
        counters: (counters) => events.counters(counters),
      },
      carrierCounters,
    );
    this.#addresses = new Addresses((ifindex, address, present) =>
      events.address(ifindex, address, present, this.#atUs),
    );
    this.#parser = new MessageParser({
      link: (type, message, answerTo) => this.#onLink(type, message, answerTo),
      address: (type, message, answerTo) => this.#onAddress(type, message, answerTo),
      done: (answerTo, errno) => this.#dump.done(answerTo, errno),
      interrupted: (answerTo) => this.#dump.interrupted(answerTo),
      overrun: () => this.#onOverrun(),
      malformed: () => {
        this.figures.malformed++;
      },
    });
    this.#dump = new Dump({
      ask: (kind, seq) => this.#ask(dumpRequest(kind, seq)),
      begin: (kind) => (kind === 'links' ? this.#links : this.#addresses).beginDump(),
      end: (kind) => (kind === 'links' ? this.#links : this.#addresses).endDump(),
      complete: () => this.#onComplete(),
      again: (why, errno) => log.debug({ why, errno }, 'the dump of interfaces is no use: asking again'),
      nowMs: () => performance.now(),
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
    if (this.#reopenTimer !== null) clearTimeout(this.#reopenTimer);
    this.#drop();
  }

  #open(): void {
    const { receiveBufferBytes, log } = this.#options;
    const socket = new RawNetlinkSocket(Protocol.ROUTE, {
      // Asking for each message's size first costs a system call, and saves the package from clearing and giving away a
      // buffer as large as the largest part of a dump for each: 20 us of CPU instead of 39, RSS 67 MiB instead of 245.
      messagePeeking: true,
      recvBufferSize: receiveBufferBytes,
      sendBufferSize: 64 * 1024,
    });
    socket.on('message', (datagram) => this.#guard(() => this.#onDatagram(datagram)));
    socket.on('error', (error) => this.#guard(() => this.#onError(error)));
    this.#socket = socket;
    this.#port = socket.address().port;
    for (const membership of Object.values(group)) socket.addMembership(membership);
    // The kernel doubles what it is asked for, to have room for its own bookkeeping.
    const grantedBytes = socket.getRecvBufferSize() / 2;
    if (grantedBytes < receiveBufferBytes) {
      log.info(
        { askedBytes: receiveBufferBytes, grantedBytes },
        'the kernel grants a smaller netlink buffer than asked for; net.core.rmem_max sets the limit',
      );
    } else {
      log.debug({ grantedBytes }, 'the netlink buffer is as large as asked for');
    }
    this.#dump.request();
  }

  /** The package's native callbacks end the whole process, past every handler, when something is thrown through them. */
  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#stopped = true;
      this.#drop();
      setImmediate(() => {
        throw error;
      });
    }
  }

  #onDatagram(datagram: Buffer): void {
    if (this.#socket === null) return;
    this.#atUs = this.#options.nowUs();
    this.figures.messages++;
    this.#parser.parse(datagram, this.#port);
  }

  #onLink(type: number, message: Readonly<LinkMessage>, answerTo: number): void {
    if (answerTo !== 0) {
      if (this.#isCurrent(answerTo)) this.#links.dumped(message);
    } else if (type === MessageType.newLink) {
      this.#links.changed(message);
    } else {
      this.#links.deleted(message.ifindex);
    }
  }

  #onAddress(type: number, message: Readonly<AddressMessage>, answerTo: number): void {
    if (answerTo === 0) this.#addresses.changed(message, type === MessageType.newAddress);
    else if (this.#isCurrent(answerTo)) this.#addresses.dumped(message);
  }

  #isCurrent(answerTo: number): boolean {
    if (answerTo !== this.#dump.seq) return false;
    this.#dump.answered();
    return true;
  }

  #onComplete(): void {
    this.#overrunLogged = false;
    this.#reopenMs = reopenFirstMs;
    if (this.#inSync) return;
    this.#inSync = true;
    this.#options.events.inSync();
  }

  #onError(error: Error & { code?: string }): void {
    if (this.#stopped) return;
    if (error.code === 'ENOBUFS') {
      this.#onOverrun();
      return;
    }
    this.#options.log.warn({ error: error.message }, 'the netlink socket failed: opening another one');
    this.#drop();
    this.#reopenLater();
  }

  #onOverrun(): void {
    this.figures.overruns++;
    if (!this.#overrunLogged) {
      this.#overrunLogged = true;
      this.#options.log.warn(
        {},
        'the kernel dropped netlink messages, since they came faster than they were read: reading all interfaces anew. ' +
          'A larger netlink.receiveBuffer helps (net.core.rmem_max limits it)',
      );
    }
    this.#dump.request();
  }

  #reopenLater(): void {
    this.#reopenTimer = setTimeout(() => {
      try {
        this.#open();
      } catch (error) {
        this.#options.log.warn({ error: String(error), againMs: this.#reopenMs }, 'no netlink socket yet');
        this.#drop();
        this.#reopenLater();
      }
    }, this.#reopenMs);
    this.#reopenMs = Math.min(reopenMostMs, this.#reopenMs * 2);
  }

  #ask(request: Buffer): void {
    this.#socket?.send(request, {}, (error) => {
      // Nothing will come of it, which Dump notices.
      if (error)
        this.#options.log.warn({ error: error.message }, 'the kernel did not take the request for a dump');
    });
  }

  /** Reads no more from the socket. It is closed when no callback of it is running: the package does not outlive that. */
  #drop(): void {
    this.#dump.stop();
    const socket = this.#socket;
    this.#socket = null;
    if (socket !== null) setImmediate(() => socket.close());
  }
}
