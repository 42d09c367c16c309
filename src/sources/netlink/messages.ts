/**
 * rtnetlink messages about links and addresses, parsed by hand and in place: a storm brings ten thousand a second of
 * 1.5 kB each, of which a few dozen bytes matter (linux/netlink.h, linux/rtnetlink.h, linux/if_link.h).
 *
 *     nlmsghdr   len u32, type u16, flags u16, seq u32, pid u32
 *     ifinfomsg  family u8, pad u8, type u16, index i32, flags u32, change u32
 *     ifaddrmsg  family u8, prefixlen u8, flags u8, scope u8, index u32
 *     rtattr     len u16, type u16, payload, padded to 4
 */
import { endianness } from 'node:os';

export const MessageType = {
  done: 3,
  error: 2,
  overrun: 4,
  newLink: 16,
  delLink: 17,
  newAddress: 20,
  delAddress: 21,
} as const;

const headerBytes = 16;
const little = endianness() === 'LE';

const flagDumpInterrupted = 0x10;
const iffUp = 0x1;
const iffRunning = 0x40;
const attribute = { ifname: 3, carrierUpCount: 47, carrierDownCount: 48, address: 1, local: 2 } as const;
const addressFamily = { unspecified: 0, inet: 2, inet6: 10 } as const;

/** A link message's content; one object serves them all. Counters are NaN where the kernel gives none. */
export interface LinkMessage {
  ifindex: number;
  name: string;
  adminUp: boolean;
  running: boolean;
  carrierUpCount: number;
  carrierDownCount: number;
}

export interface AddressMessage {
  ifindex: number;
  address: string;
}

export interface MessageHandler {
  /** The objects are overwritten by the next message. */
  link(
    type: typeof MessageType.newLink | typeof MessageType.delLink,
    message: Readonly<LinkMessage>,
    seq: number,
  ): void;
  address(
    type: typeof MessageType.newAddress | typeof MessageType.delAddress,
    message: Readonly<AddressMessage>,
    seq: number,
  ): void;
  /** The end of a dump; `errno` is 0 unless the kernel gave up. */
  done(seq: number, errno: number): void;
  /** A dump that something changed under: it is not one moment's truth (NLM_F_DUMP_INTR). */
  interrupted(seq: number): void;
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
    carrierUpCount: 0,
    carrierDownCount: 0,
  };
  readonly #address: AddressMessage = { ifindex: 0, address: '' };

  constructor(handler: MessageHandler) {
    this.#handler = handler;
  }

  /** Takes one datagram, which may hold several messages. Never throws on what it holds. */
  parse(datagram: Buffer): void {
    let at = 0;
    while (at + headerBytes <= datagram.length) {
      const length = u32(datagram, at);
      if (length < headerBytes || at + length > datagram.length) {
        this.#handler.malformed();
        return;
      }
      this.#message(datagram, at, at + length);
      at += align(length);
    }
    if (at < datagram.length) this.#handler.malformed();
  }

  #message(bytes: Buffer, at: number, end: number): void {
    const type = u16(bytes, at + 4);
    const seq = u32(bytes, at + 8);
    if ((u16(bytes, at + 6) & flagDumpInterrupted) !== 0) this.#handler.interrupted(seq);
    const body = at + headerBytes;
    switch (type) {
      case MessageType.newLink:
      case MessageType.delLink:
        this.#linkMessage(type, bytes, body, end, seq);
        break;
      case MessageType.newAddress:
      case MessageType.delAddress:
        this.#addressMessage(type, bytes, body, end, seq);
        break;
      case MessageType.done:
      case MessageType.error:
        this.#handler.done(seq, body + 4 <= end ? 0 - i32(bytes, body) : 0);
        break;
      default: // nothing that matters here
    }
  }

  #linkMessage(
    type: typeof MessageType.newLink | typeof MessageType.delLink,
    bytes: Buffer,
    body: number,
    end: number,
    seq: number,
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
    link.carrierUpCount = Number.NaN;
    link.carrierDownCount = Number.NaN;
    for (let at = body + 16; at + 4 <= end; ) {
      const length = u16(bytes, at);
      if (length < 4 || at + length > end) {
        this.#handler.malformed();
        return;
      }
      const kind = u16(bytes, at + 2) & 0x3fff;
      if (kind === attribute.ifname) link.name = cString(bytes, at + 4, at + length);
      else if (kind === attribute.carrierUpCount && length >= 8) link.carrierUpCount = u32(bytes, at + 4);
      else if (kind === attribute.carrierDownCount && length >= 8) link.carrierDownCount = u32(bytes, at + 4);
      at += align(length);
    }
    // Messages about wireless events and the like have no name: they tell nothing of the state.
    if (link.name !== '') this.#handler.link(type, link, seq);
  }

  #addressMessage(
    type: typeof MessageType.newAddress | typeof MessageType.delAddress,
    bytes: Buffer,
    body: number,
    end: number,
    seq: number,
  ): void {
    if (body + 8 > end) {
      this.#handler.malformed();
      return;
    }
    const family = bytes[body]!;
    let address = '';
    for (let at = body + 8; at + 4 <= end; ) {
      const length = u16(bytes, at);
      if (length < 4 || at + length > end) {
        this.#handler.malformed();
        return;
      }
      const kind = u16(bytes, at + 2) & 0x3fff;
      // On a point-to-point link IFA_ADDRESS is the peer's, and IFA_LOCAL is this side's.
      if (kind === attribute.local || (kind === attribute.address && address === '')) {
        address = addressText(family, bytes.subarray(at + 4, at + length)) ?? address;
      }
      at += align(length);
    }
    if (address === '') return;
    this.#address.ifindex = u32(bytes, body + 4);
    this.#address.address = address;
    this.#handler.address(type, this.#address, seq);
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

function addressText(family: number, bytes: Uint8Array): string | null {
  if (family === addressFamily.inet && bytes.length === 4) return bytes.join('.');
  if (family !== addressFamily.inet6 || bytes.length !== 16) return null;
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i]! << 8) | bytes[2 * i + 1]!).toString(16));
  return canonicalIp(groups.join(':'));
}

/** An address in the one form in which addresses are compared here (RFC 5952 for IPv6, as URL does it). */
export function canonicalIp(address: string): string {
  const bare = address.replace(/\/\d+$/, '');
  if (!bare.includes(':')) return bare;
  try {
    return new URL(`http://[${bare}]`).hostname.slice(1, -1);
  } catch {
    return bare;
  }
}

function cString(bytes: Buffer, start: number, end: number): string {
  let stop = start;
  while (stop < end && bytes[stop] !== 0) stop++;
  return bytes.toString('latin1', start, stop);
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
