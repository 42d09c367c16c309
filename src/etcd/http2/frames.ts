/**
 * HTTP/2 frames (RFC 9113, section 4.1):
 *
 *     length u24, type u8, flags u8, stream u32 (31 bits), payload
 */

export const FrameType = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const Flag = {
  /** Of DATA and HEADERS. */
  endStream: 1,
  /** Of SETTINGS and PING. */
  ack: 1,
  endHeaders: 4,
  padded: 8,
  priority: 32,
} as const;

export const Setting = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
} as const;

/** RFC 9113, section 7. */
export const ErrorCode = {
  noError: 0,
  protocolError: 1,
  flowControlError: 3,
  frameSizeError: 6,
  cancel: 8,
  compressionError: 9,
  enhanceYourCalm: 11,
} as const;

/** The peer has broken the protocol, or speaks another one: the connection must end. */
export class ProtocolError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(`the peer's HTTP/2 is broken: ${message}`);
    this.code = code;
  }
}

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
export const frameHeaderBytes = 9;
/** What a peer may send, as we allow it no more than the default. */
const payloadBytesMax = 16_384;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  /** A view of what was received, there only until `take` returns. */
  readonly payload: Buffer;
}

interface FrameHeader {
  readonly length: number;
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
}

export function encodeFrameHeader({ length, type, flags, stream }: FrameHeader): Buffer {
  const header = Buffer.allocUnsafe(frameHeaderBytes);
  header.writeUIntBE(length, 0, 3);
  header[3] = type;
  header[4] = flags;
  header.writeUInt32BE(stream, 5);
  return header;
}

export function encodeFrame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  return Buffer.concat([encodeFrameHeader({ length: payload.length, type, flags, stream }), payload]);
}

export function encodeSettings(settings: readonly (readonly [setting: number, value: number])[]): Buffer {
  const payload = Buffer.allocUnsafe(6 * settings.length);
  let at = 0;
  for (const [id, value] of settings) at = payload.writeUInt32BE(value, payload.writeUInt16BE(id, at));
  return encodeFrame(FrameType.settings, 0, 0, payload);
}

/** WINDOW_UPDATE and RST_STREAM are a number each. */
export function encodeNumber(
  type: typeof FrameType.windowUpdate | typeof FrameType.resetStream,
  stream: number,
  value: number,
): Buffer {
  const payload = Buffer.allocUnsafe(4);
  payload.writeUInt32BE(value);
  return encodeFrame(type, 0, stream, payload);
}

export function encodeGoAway(code: number): Buffer {
  const payload = Buffer.alloc(8);
  payload.writeUInt32BE(code, 4);
  return encodeFrame(FrameType.goAway, 0, 0, payload);
}

/** The payload of DATA or HEADERS, without padding and priority. Throws a ProtocolError. */
export function unpadded({ type, flags, payload }: Frame): Buffer {
  if ((flags & (Flag.padded | Flag.priority)) === 0) return payload;
  let start = 0;
  let end = payload.length;
  if ((flags & Flag.padded) !== 0) {
    start = 1;
    end -= payload[0] ?? 0;
  }
  if (type === FrameType.headers && (flags & Flag.priority) !== 0) start += 5;
  if (start > end) throw new ProtocolError(ErrorCode.protocolError, 'more padding than there is room for');
  return payload.subarray(start, end);
}

/** Cuts what is received into frames. */
export class FrameReader {
  #rest: Buffer | null = null;

  /** Gives each whole frame to `take`. Throws a ProtocolError. */
  push(chunk: Buffer, take: (frame: Frame) => void): void {
    const bytes = this.#rest === null ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#rest = null;
    let at = 0;
    while (bytes.length - at >= frameHeaderBytes) {
      const length = bytes.readUIntBE(at, 3);
      if (length > payloadBytesMax)
        throw new ProtocolError(ErrorCode.frameSizeError, `a frame of ${length} bytes`);
      const end = at + frameHeaderBytes + length;
      if (end > bytes.length) break;
      take({
        type: bytes[at + 3]!,
        flags: bytes[at + 4]!,
        stream: bytes.readUInt32BE(at + 5) & 0x7fff_ffff,
        payload: bytes.subarray(at + frameHeaderBytes, end),
      });
      at = end;
    }
    if (at < bytes.length) this.#rest = Buffer.from(bytes.subarray(at));
  }
}
