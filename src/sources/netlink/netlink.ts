/**
 * The kernel's news of interfaces: one rtnetlink socket that is subscribed first and asked for a dump then. One socket
 * and not two, so that news and dump come in one order; what that order still leaves open is in links.ts. The socket
 * is held by a process of its own: reader-process.ts says why.
 */
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
import { Reader } from './reader.js';

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
  #reader: Reader | null = null;
  #giveUpStart: () => void = () => undefined;
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
      ask: (kind, seq) => this.#reader?.send(dumpRequest(kind, seq)),
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
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#giveUpStart = resolve;
      this.#open(resolve, reject);
    });
  }

  /** Resolves when its process has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#dump.stop();
    if (this.#reopenTimer !== null) clearTimeout(this.#reopenTimer);
    await this.#reader?.stop();
    this.#giveUpStart();
  }

  #open(onOpen: () => void, onFailed: (error: Error) => void): void {
    const { receiveBufferBytes, log } = this.#options;
    let opened = false;
    this.#reader = new Reader(receiveBufferBytes, {
      open: (port, grantedBytes) => {
        opened = true;
        this.#port = port;
        if (grantedBytes < receiveBufferBytes) {
          log.info(
            { askedBytes: receiveBufferBytes, grantedBytes },
            'the kernel grants a smaller netlink buffer than asked for; net.core.rmem_max sets the limit',
          );
        } else {
          log.debug({ grantedBytes }, 'the netlink buffer is as large as asked for');
        }
        this.#dump.request();
        onOpen();
      },
      message: (datagram) => this.#onDatagram(datagram),
      overrun: () => this.#onOverrun(),
      ended: (why) => {
        this.#reader = null;
        this.#dump.stop();
        if (!opened) onFailed(why === 'overrun' ? new Error('it ended before it began') : why);
        else this.#onEnded(why);
      },
    });
  }

  #onDatagram(datagram: Buffer): void {
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

  #onEnded(why: 'overrun' | Error): void {
    if (why === 'overrun') this.#countOverrun();
    else this.#options.log.warn({ error: why.message }, 'the netlink socket failed: opening another one');
    this.#reopenLater();
  }

  #onOverrun(): void {
    this.#countOverrun();
    this.#dump.request();
  }

  #countOverrun(): void {
    this.figures.overruns++;
    if (!this.#overrunLogged) {
      this.#overrunLogged = true;
      this.#options.log.warn(
        {},
        'the kernel dropped netlink messages, since they came faster than they were read: reading all interfaces anew. ' +
          'A larger netlink.receiveBuffer helps (net.core.rmem_max limits it)',
      );
    }
  }

  #reopenLater(): void {
    this.#reopenTimer = setTimeout(() => {
      this.#open(
        () => undefined,
        (error) => {
          this.#options.log.warn(
            { error: error.message, againMs: this.#reopenMs },
            'no netlink socket yet: trying again',
          );
          if (!this.#stopped) this.#reopenLater();
        },
      );
    }, this.#reopenMs);
    this.#reopenMs = Math.min(reopenMostMs, this.#reopenMs * 2);
  }
}
