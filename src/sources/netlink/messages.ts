/**
 * rtnetlink messages about links and addresses, parsed by hand and in place: a storm brings ten thousand a second of
 * 1.2 kB each, of which a few dozen bytes matter (linux/netlink.h, linux/rtnetlink.h, linux/if_link.h).
 *
 *     nlmsghdr   len u32, type u16, flags u16, seq u32, port u32
 *     ifinfomsg  family u8, pad u8, type u16, index i32, flags u32, change u32
 *     ifaddrmsg  family u8, prefixlen u8, flags u8, scope u8, index u32
 *     rtattr     len u16, type u16, payload, padded to 4
 */
import { endianness } from 'node:os';
import { canonicalIp } from '../../endpoints/ip.js';

export const MessageType = {
  error: 2,
  done: 3,
  overrun: 4,
  newLink: 16,
  delLink: 17,
  newAddress: 20,
  delAddress: 21,
} as const;

const headerBytes = 16;
const little = endianness() === 'LE';

const flagMulti = 0x2;
const flagDumpInterrupted = 0x10;
const iffUp = 0x1;
const iffRunning = 0x40;
const iffLowerUp = 0x10000;
const operTesting = 4;
const operDormant = 5;
const attribute = {
  address: 1,
  local: 2,
  ifname: 3,
  wireless: 11,
  operState: 16,
  carrier: 33,
  carrierUpCount: 47,
  carrierDownCount: 48,
} as const;
const addressFamily = { unspecified: 0, inet: 2, inet6: 10 } as const;

/** A link message's content; one object serves them all. */
export interface LinkMessage {
  ifindex: number;
  name: string;
  adminUp: boolean;
  /** IFF_RUNNING: it follows the carrier up to a second late. */
  running: boolean;
  /** The carrier itself, at this moment. */
  carrier: boolean;
  /** Something other than the carrier keeps it from running (802.1X, a self-test), for as long as that takes. */
  heldBack: boolean;
  /** How often the carrier came and went: 32 bits that wrap. NaN where the kernel gives none. */
  carrierUpCount: number;
  carrierDownCount: number;
}

export interface AddressMessage {
  ifindex: number;
  address: string;
  prefixLength: number;
}

/**
 * Objects are overwritten by the next message. `answerTo` is the seq of our own request that a message answers, 0 for
 * news: others' requests have seqs too, and the news of what they did carries them.
 */
export interface MessageHandler {
  link(
    type: typeof MessageType.newLink | typeof MessageType.delLink,
    message: Readonly<LinkMessage>,
    answerTo: number,
  ): void;
  address(
    type: typeof MessageType.newAddress | typeof MessageType.delAddress,
    message: Readonly<AddressMessage>,
    answerTo: number,
  ): void;
  /** The end of a dump; `errno` is 0 unless the kernel gave up. */
  done(answerTo: number, errno: number): void;
  /** A dump that something changed under: it is not one moment's truth (NLM_F_DUMP_INTR). */
  interrupted(answerTo: number): void;
  /** The kernel says that it lost messages (NLMSG_OVERRUN). */
  overrun(): void;
  /** A message that is damaged or cut short was skipped. */
  malformed(): void;
}

export class MessageParser {
  readonly #handler: MessageHandler;
  readonly #link: LinkMessage = {
    ifindex: 0,
    name: '',
    adminUp: false,
    running: false,
    carrier: false,
    heldBack: false,
    carrierUpCount: 0,
    carrierDownCount: 0,
  };
  readonly #address: AddressMessage = { ifindex: 0, address: '', prefixLength: 0 };

  constructor(handler: MessageHandler) {
    this.#handler = handler;
  }

  /** Takes one datagram, which may hold several messages; `port` is our own. Never throws on what it holds. */
  parse(datagram: Buffer, port: number): void {
    let at = 0;
    while (at + headerBytes <= datagram.length) {
      const length = u32(datagram, at);
      if (length < headerBytes || at + length > datagram.length) {
        this.#handler.malformed();
        return;
      }
      this.#message(datagram, at, at + length, port);
      at += align(length);
    }
    if (at < datagram.length) this.#handler.malformed();
  }

  #message(bytes: Buffer, at: number, end: number, port: number): void {
    const type = u16(bytes, at + 4);
    const flags = u16(bytes, at + 6);
    const ours = u32(bytes, at + 12) === port && ((flags & flagMulti) !== 0 || type <= MessageType.done);
    const answerTo = ours ? u32(bytes, at + 8) : 0;
    if (ours && (flags & flagDumpInterrupted) !== 0) this.#handler.interrupted(answerTo);
    const body = at + headerBytes;
    switch (type) {
      case MessageType.newLink:
      case MessageType.delLink:
        this.#linkMessage(type, bytes, body, end, answerTo);
        break;
      case MessageType.newAddress:
      case MessageType.delAddress:
        this.#addressMessage(type, bytes, body, end, answerTo);
        break;
      case MessageType.done:
      case MessageType.error:
        if (ours) this.#handler.done(answerTo, body + 4 <= end ? 0 - i32(bytes, body) : 0);
        break;
      case MessageType.overrun:
        this.#handler.overrun();
        break;
      default: // nothing that matters here
    }
  }

  #linkMessage(
    type: typeof MessageType.newLink | typeof MessageType.delLink,
    bytes: Buffer,
    body: number,
    end: number,
    answerTo: number,
  ): void {
    if (body + 16 > end) {
      this.#handler.malformed();
      return;
    }
    // A bridge tells of its ports in link messages of its own family: a DELLINK there only means "left the bridge".
    if (bytes[body] !== addressFamily.unspecified) return;
    const link = this.#link;
    const flags = u32(bytes, body + 8);
    link.ifindex = i32(bytes, body + 4);
    link.name = '';
    link.adminUp = (flags & iffUp) !== 0;
    link.running = (flags & iffRunning) !== 0;
    link.carrier = (flags & iffLowerUp) !== 0;
    link.heldBack = false;
    link.carrierUpCount = Number.NaN;
    link.carrierDownCount = Number.NaN;
    for (let at = body + 16; at + 4 <= end; ) {
      const length = u16(bytes, at);
      if (length < 4 || at + length > end) {
        this.#handler.malformed();
        return;
      }
      switch (u16(bytes, at + 2) & 0x3fff) {
        case attribute.ifname:
          link.name = nameText(bytes, at + 4, at + length);
          break;
        case attribute.operState:
          if (length > 4) link.heldBack = bytes[at + 4] === operDormant || bytes[at + 4] === operTesting;
          break;
        case attribute.carrier: // unlike IFF_LOWER_UP also given while an administrator has switched it off
          if (length > 4) link.carrier = bytes[at + 4] !== 0;
          break;
        case attribute.carrierUpCount:
          if (length >= 8) link.carrierUpCount = u32(bytes, at + 4);
          break;
        case attribute.carrierDownCount:
          if (length >= 8) link.carrierDownCount = u32(bytes, at + 4);
          break;
        case attribute.wireless:
          return; // an event of a wireless card, which only looks like a change of the interface
        default:
      }
      at += align(length);
    }
    if (link.name !== '') this.#handler.link(type, link, answerTo);
  }

  #addressMessage(
    type: typeof MessageType.newAddress | typeof MessageType.delAddress,
    bytes: Buffer,
    body: number,
    end: number,
    answerTo: number,
  ): void {
    if (body + 8 > end) {
      this.#handler.malformed();
      return;
    }
    const family = bytes[body]!;
    let address = '';
    let local = '';
    for (let at = body + 8; at + 4 <= end; ) {
      const length = u16(bytes, at);
      if (length < 4 || at + length > end) {
        this.#handler.malformed();
        return;
      }
      const kind = u16(bytes, at + 2) & 0x3fff;
      if (kind === attribute.address) address = addressText(family, bytes.subarray(at + 4, at + length));
      else if (kind === attribute.local) local = addressText(family, bytes.subarray(at + 4, at + length));
      at += align(length);
    }
    // On a point-to-point link IFA_ADDRESS is the peer's, and IFA_LOCAL is this side's.
    const own = local === '' ? address : local;
    if (own === '') return;
    this.#address.ifindex = u32(bytes, body + 4);
    this.#address.address = own;
    this.#address.prefixLength = bytes[body + 1]!;
    this.#handler.address(type, this.#address, answerTo);
  }
}

/** A request for a dump of all links, or all addresses. */
export function dumpRequest(what: 'links' | 'addresses', seq: number): Buffer {
  const body = what === 'links' ? 16 : 8;
  const request = Buffer.alloc(headerBytes + body);
  const write32 = little ? request.writeUInt32LE : request.writeUInt32BE;
  const write16 = little ? request.writeUInt16LE : request.writeUInt16BE;
  write32.call(request, request.length, 0);
  write16.call(request, what === 'links' ? 18 : 22, 4); // RTM_GETLINK, RTM_GETADDR
  write16.call(request, 0x301, 6); // NLM_F_REQUEST | NLM_F_DUMP
  write32.call(request, seq, 8);
  return request;
}

/** Empty for what is no address. */
function addressText(family: number, bytes: Uint8Array): string {
  if (family === addressFamily.inet && bytes.length === 4) return bytes.join('.');
  if (family !== addressFamily.inet6 || bytes.length !== 16) return '';
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i]! << 8) | bytes[2 * i + 1]!).toString(16));
  return canonicalIp(groups.join(':'));
}

/** The kernel takes any bytes as a name. Those that are no UTF-8 are taken one by one, so that two names stay two. */
function nameText(bytes: Buffer, start: number, end: number): string {
  let stop = start;
  let ascii = true;
  for (; stop < end && bytes[stop] !== 0; stop++) if (bytes[stop]! > 0x7f) ascii = false;
  if (ascii) return bytes.toString('latin1', start, stop);
  const text = bytes.toString('utf8', start, stop);
  return text.includes('\ufffd') ? bytes.toString('latin1', start, stop) : text;
}

function align(length: number): number {
  return (length + 3) & ~3;
}

function u16(bytes: Buffer, at: number): number {
  return little ? bytes.readUInt16LE(at) : bytes.readUInt16BE(at);
}

function u32(bytes: Buffer, at: number): number {
  return little ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
}

function i32(bytes: Buffer, at: number): number {
  return little ? bytes.readInt32LE(at) : bytes.readInt32BE(at);
}
