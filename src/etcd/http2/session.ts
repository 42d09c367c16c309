/**
 * A client's HTTP/2 connection (RFC 9113) for gRPC's unary calls, one small answer to each request. node:http2 does the same with
 * streams, events and header objects that nobody needs here; what they cost: docs/performance.md.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import {
  ErrorCode,
  encodeFrame,
  encodeFrameHeader,
  encodeGoAway,
  encodeNumber,
  encodeSettings,
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  ProtocolError,
  preface,
  Setting,
  unpadded,
} from './frames.js';
import { type AnswerFields, AnswerFieldsReader } from './hpack.js';

export interface Peer {
  readonly host: string;
  readonly port: number;
  readonly tls: { readonly ca: Buffer; readonly cert: Buffer | null; readonly key: Buffer | null } | null;
}

/** What becomes of a request. After onEnd or onFailure nothing more comes. */
export interface AnswerListener {
  onFields(fields: AnswerFields): void;
  /** There only until the call returns. */
  onData(chunk: Buffer): void;
  onEnd(): void;
  onFailure(error: Error): void;
}

/** A request that is under way. */
export interface Exchange {
  /** Nothing more will come of it. */
  cancel(): void;
}

interface Stream {
  readonly id: number;
  readonly listener: AnswerListener;
  readonly body: Body;
  /** Bytes of the body. */
  sent: number;
  /** Bytes that the peer takes of it. */
  window: number;
  received: number;
}

/** A request's body, in two pieces, so that nobody has to copy the message to put its prefix before it. */
class Body {
  readonly length: number;
  readonly #prefix: Uint8Array;
  readonly #message: Uint8Array;

  constructor(prefix: Uint8Array, message: Uint8Array) {
    this.#prefix = prefix;
    this.#message = message;
    this.length = prefix.length + message.length;
  }

  /** Views of the bytes from there to there. */
  *between(from: number, to: number): IterableIterator<Uint8Array> {
    const { length } = this.#prefix;
    if (from < length) yield this.#prefix.subarray(from, Math.min(to, length));
    if (to > length) yield this.#message.subarray(Math.max(0, from - length), to - length);
  }
}

interface Waiting {
  readonly fields: Buffer;
  readonly body: Body;
  readonly listener: AnswerListener;
  stream: Stream | null;
}

const windowDefault = 65_535;
const windowMax = 2 ** 31 - 1;
const idMax = 2 ** 31 - 1;
const payloadBytesDefault = 16_384;
/** As with every gRPC client by default; answers to transactions have some hundred bytes. */
const answerBytesMax = 4 * 2 ** 20;
const connectionWindow = 2 ** 30;
const headerBytesMax = 65_536;
/** What is no more than this goes as one piece, copied; above, the copy of a transaction of a hundred puts is saved. */
const gatheredMax = 8192;
const readBytes = 65_536;

export class Http2Session {
  readonly #socket: Socket;
  readonly #reader = new FrameReader();
  readonly #streams = new Map<number, Stream>();
  /** Beyond what the peer allows at a time. */
  readonly #waiting: Waiting[] = [];
  #nextId = 1;
  #draining = false;
  #ended: Error | null = null;
  #onReady: (() => void) | null;
  #onEnded: (error: Error) => void;

  // What the peer has said.
  #payloadMax = payloadBytesDefault;
  #streamsMax = Number.POSITIVE_INFINITY;
  #streamWindow = windowDefault;
  #sendWindow = windowDefault;

  readonly #fieldsReader = new AnswerFieldsReader();
  /** What the peer is to hear, with the next request or at the end of this turn of the loop: etcd pings with every few answers. */
  #owed: Buffer[] = [];
  /** Bytes received since the peer was last told that it may send more. */
  #consumed = 0;
  /** A header block that CONTINUATION frames go on with. */
  #block: { readonly stream: number; readonly flags: number; bytes: Buffer } | null = null;

  private constructor(socket: Socket, onReady: () => void, onEnded: (error: Error) => void) {
    this.#socket = socket;
    this.#onReady = onReady;
    this.#onEnded = onEnded;
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => this.destroy(new Error('the connection was lost before there was an answer')));
    socket.write(
      Buffer.concat([
        preface,
        encodeSettings([
          [Setting.headerTableSize, 0],
          [Setting.enablePush, 0],
          [Setting.initialWindowSize, answerBytesMax],
        ]),
        encodeNumber(FrameType.windowUpdate, 0, connectionWindow - windowDefault),
      ]),
    );
  }

  /** Resolves once the peer has shown that it speaks HTTP/2; rejects after `timeoutMs` at the latest. */
  static open(
    peer: Peer,
    timeoutMs: number,
    onEnded: (session: Http2Session) => void,
  ): Promise<Http2Session> {
    return new Promise((resolve, reject) => {
      let session: Http2Session | null = null;
      const connected = (): void => {
        session = new Http2Session(
          socket,
          () => {
            clearTimeout(timer);
            resolve(session!);
          },
          (error) => {
            clearTimeout(timer);
            reject(error);
            onEnded(session!);
          },
        );
      };
      const socket = connect(peer, connected, (bytes) => {
        if (session !== null) session.#received(bytes);
      });
      const fail = (error: Error): void => {
        clearTimeout(timer);
        if (session !== null) session.destroy(error);
        else socket.destroy();
        reject(error);
      };
      const timer = setTimeout(() => fail(new Error('it does not answer')), timeoutMs);
      socket.once('error', fail);
    });
  }

  /** Whether a request may be given to it. */
  get usable(): boolean {
    return !this.#draining && this.#ended === null;
  }

  /** `fields`: see hpack.ts. The body (its prefix is not empty) must not change until the exchange is over. */
  request(fields: Buffer, prefix: Uint8Array, message: Uint8Array, listener: AnswerListener): Exchange {
    if (!this.usable) throw this.#ended ?? new Error('the peer is closing the connection');
    const waiting: Waiting = { fields, body: new Body(prefix, message), listener, stream: null };
    if (this.#streams.size < this.#streamsMax) this.#begin(waiting);
    else this.#waiting.push(waiting);
    return { cancel: () => this.#cancel(waiting) };
  }

  /** What is under way fails so. */
  destroy(error: Error): void {
    if (this.#ended !== null) return;
    this.#ended = error;
    this.#socket.destroy();
    const listeners = [...this.#streams.values(), ...this.#waiting.splice(0)].map(({ listener }) => listener);
    this.#streams.clear();
    for (const listener of listeners) listener.onFailure(error);
    this.#onEnded(error);
  }

  // --- what is sent ----------------------------------------------------------------------------------------------

  #begin(waiting: Waiting): void {
    const { fields, body, listener } = waiting;
    const stream: Stream = {
      id: this.#nextId,
      listener,
      body,
      sent: 0,
      window: this.#streamWindow,
      received: 0,
    };
    waiting.stream = stream;
    this.#nextId += 2;
    // Half a billion requests: the next one needs a connection of its own.
    if (this.#nextId > idMax) this.#draining = true;
    this.#streams.set(stream.id, stream);
    this.#send(stream, fields);
  }

  /** As much of the body as the peer takes, after the header fields where they are still to be sent. */
  #send(stream: Stream, fields: Buffer | null): void {
    const { id, body } = stream;
    const end =
      stream.sent + Math.max(0, Math.min(body.length - stream.sent, stream.window, this.#sendWindow));
    if (fields === null && end === stream.sent) return;
    const parts: Uint8Array[] = this.#owed;
    this.#owed = [];
    if (fields !== null)
      parts.push(
        encodeFrameHeader({
          length: fields.length,
          type: FrameType.headers,
          flags: Flag.endHeaders,
          stream: id,
        }),
        fields,
      );
    stream.window -= end - stream.sent;
    this.#sendWindow -= end - stream.sent;
    while (stream.sent < end) {
      const next = Math.min(end, stream.sent + this.#payloadMax);
      const flags = next === body.length ? Flag.endStream : 0;
      parts.push(
        encodeFrameHeader({ length: next - stream.sent, type: FrameType.data, flags, stream: id }),
        ...body.between(stream.sent, next),
      );
      stream.sent = next;
    }
    this.#write(parts);
  }

  /** What is large goes as it is, the rest as one. */
  #write(parts: readonly Uint8Array[]): void {
    const bytes = parts.reduce((sum, part) => sum + part.length, 0);
    if (bytes <= gatheredMax) {
      this.#socket.write(Buffer.concat(parts, bytes));
      return;
    }
    this.#socket.cork();
    for (const part of parts) this.#socket.write(part);
    this.#socket.uncork();
  }

  #owe(frame: Buffer): void {
    this.#owed.push(frame);
    if (this.#owed.length > 1) return;
    setImmediate(() => {
      const owed = this.#owed;
      this.#owed = [];
      if (owed.length > 0 && this.#ended === null) this.#write(owed);
    });
  }

  #sendMore(): void {
    for (const stream of this.#streams.values()) {
      if (this.#sendWindow <= 0) return;
      if (stream.sent < stream.body.length) this.#send(stream, null);
    }
  }

  #cancel(waiting: Waiting): void {
    const { stream } = waiting;
    if (stream === null) {
      const index = this.#waiting.indexOf(waiting);
      if (index >= 0) this.#waiting.splice(index, 1);
    } else if (this.#streams.get(stream.id) === stream) {
      this.#reset(stream, ErrorCode.cancel);
    }
  }

  #reset(stream: Stream, code: number): void {
    this.#socket.write(encodeNumber(FrameType.resetStream, stream.id, code));
    this.#over(stream);
  }

  #over(stream: Stream): void {
    this.#streams.delete(stream.id);
    this.#admit();
    if (this.#draining) this.#drain();
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#streams.size < this.#streamsMax && this.usable)
      this.#begin(this.#waiting.shift()!);
  }

  /** No request begins here any more: those that wait do so in vain. */
  #drain(): void {
    for (const { listener } of this.#waiting.splice(0)) listener.onFailure(closing());
    if (this.#streams.size === 0) this.destroy(closing());
  }

  // --- what is received ------------------------------------------------------------------------------------------

  #received(chunk: Buffer): void {
    try {
      this.#reader.push(chunk, (frame) => {
        if (this.#ended === null) this.#take(frame);
      });
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error; // a bug of ours, not the peer's
      this.#socket.write(encodeGoAway(error.code));
      this.destroy(error);
    }
  }

  #take(frame: Frame): void {
    if (this.#onReady !== null && frame.type !== FrameType.settings) throw protocolError('no SETTINGS first');
    if (this.#block !== null && frame.type !== FrameType.continuation)
      throw protocolError('header fields that do not end');
    switch (frame.type) {
      case FrameType.data:
        this.#takeData(frame);
        break;
      case FrameType.headers:
        this.#takeHeaders(frame.stream, frame.flags, unpadded(frame));
        break;
      case FrameType.continuation:
        this.#takeContinuation(frame);
        break;
      case FrameType.resetStream:
        this.#takeReset(frame);
        break;
      case FrameType.settings:
        this.#takeSettings(frame);
        break;
      case FrameType.ping:
        if ((frame.flags & Flag.ack) === 0)
          this.#owe(encodeFrame(FrameType.ping, Flag.ack, 0, frame.payload));
        break;
      case FrameType.goAway:
        this.#takeGoAway(frame);
        break;
      case FrameType.windowUpdate:
        this.#takeWindowUpdate(frame);
        break;
      case FrameType.pushPromise:
        throw protocolError('a push that was not allowed');
      default: // PRIORITY, and what HTTP/2 may have one day, mean nothing here
    }
  }

  #takeData(frame: Frame): void {
    this.#consumed += frame.payload.length;
    if (this.#consumed >= connectionWindow / 2) {
      this.#owe(encodeNumber(FrameType.windowUpdate, 0, this.#consumed));
      this.#consumed = 0;
    }
    const stream = this.#stream(frame.stream);
    if (stream === undefined) return;
    stream.received += frame.payload.length;
    if (stream.received >= answerBytesMax) {
      this.#reset(stream, ErrorCode.cancel);
      stream.listener.onFailure(new Error(`an answer of more than ${answerBytesMax} bytes`));
      return;
    }
    stream.listener.onData(unpadded(frame));
    if ((frame.flags & Flag.endStream) !== 0) this.#answered(stream);
  }

  #takeHeaders(id: number, flags: number, bytes: Buffer): void {
    if ((flags & Flag.endHeaders) === 0) {
      this.#block = { stream: id, flags, bytes: Buffer.from(bytes) };
      return;
    }
    const stream = this.#stream(id);
    const fields = this.#answerFieldsIn(bytes);
    if (stream === undefined) return;
    stream.listener.onFields(fields);
    if ((flags & Flag.endStream) !== 0) this.#answered(stream);
  }

  #answerFieldsIn(block: Buffer): AnswerFields {
    try {
      return this.#fieldsReader.read(block);
    } catch (error) {
      throw new ProtocolError(ErrorCode.compressionError, String(error));
    }
  }

  #takeContinuation({ stream, flags, payload }: Frame): void {
    const block = this.#block;
    if (block === null || block.stream !== stream) throw protocolError('a CONTINUATION of nothing');
    if (block.bytes.length + payload.length > headerBytesMax)
      throw new ProtocolError(
        ErrorCode.enhanceYourCalm,
        `more than ${headerBytesMax} bytes of header fields`,
      );
    block.bytes = Buffer.concat([block.bytes, payload]);
    if ((flags & Flag.endHeaders) === 0) return;
    this.#block = null;
    this.#takeHeaders(stream, block.flags | Flag.endHeaders, block.bytes);
  }

  /** The listener may have cancelled it. */
  #answered(stream: Stream): void {
    if (this.#streams.get(stream.id) !== stream) return;
    // Answered before the request was whole: the peer wants no more of it.
    if (stream.sent < stream.body.length) this.#reset(stream, ErrorCode.noError);
    else this.#over(stream);
    stream.listener.onEnd();
  }

  #takeReset({ stream: id, payload }: Frame): void {
    const stream = this.#stream(id);
    const code = numberIn(payload);
    if (stream === undefined) return;
    this.#over(stream);
    stream.listener.onFailure(new Error(`the peer gave the request up (HTTP/2 error ${code})`));
  }

  #takeSettings({ flags, payload }: Frame): void {
    if ((flags & Flag.ack) !== 0) return;
    if (payload.length % 6 !== 0) throw new ProtocolError(ErrorCode.frameSizeError, 'settings cut off');
    for (let at = 0; at < payload.length; at += 6)
      this.#set(payload.readUInt16BE(at), payload.readUInt32BE(at + 2));
    this.#socket.write(encodeFrame(FrameType.settings, Flag.ack, 0, Buffer.alloc(0)));
    this.#onReady?.();
    this.#onReady = null;
    this.#admit();
    this.#sendMore();
  }

  #set(setting: number, value: number): void {
    if (setting === Setting.maxConcurrentStreams) {
      this.#streamsMax = value;
    } else if (setting === Setting.maxFrameSize) {
      if (value < payloadBytesDefault || value >= 2 ** 24) throw protocolError(`frames of ${value} bytes`);
      this.#payloadMax = value;
    } else if (setting === Setting.initialWindowSize) {
      if (value > windowMax)
        throw new ProtocolError(ErrorCode.flowControlError, `a window of ${value} bytes`);
      // May be less than nothing: then what was sent beyond it has to be taken first.
      for (const stream of this.#streams.values()) stream.window += value - this.#streamWindow;
      this.#streamWindow = value;
    }
  }

  /** No more requests on this connection; those after the last one that it names were not looked at. */
  #takeGoAway({ payload }: Frame): void {
    if (payload.length < 8) throw new ProtocolError(ErrorCode.frameSizeError, 'a GOAWAY cut off');
    const last = payload.readUInt32BE(0) & 0x7fff_ffff;
    const code = payload.readUInt32BE(4);
    this.#draining = true;
    for (const stream of [...this.#streams.values()]) {
      if (stream.id <= last) continue;
      this.#streams.delete(stream.id);
      stream.listener.onFailure(new Error(`the peer is closing the connection (HTTP/2 error ${code})`));
    }
    this.#drain();
  }

  #takeWindowUpdate({ stream: id, payload }: Frame): void {
    const more = numberIn(payload) & 0x7fff_ffff;
    if (id === 0) {
      this.#sendWindow += more;
      if (more === 0 || this.#sendWindow > windowMax)
        throw new ProtocolError(ErrorCode.flowControlError, 'a window that cannot be');
      this.#sendMore();
      return;
    }
    const stream = this.#stream(id);
    if (stream === undefined) return;
    stream.window += more;
    if (more === 0 || stream.window > windowMax) {
      this.#reset(stream, ErrorCode.flowControlError);
      stream.listener.onFailure(new ProtocolError(ErrorCode.flowControlError, 'a window that cannot be'));
      return;
    }
    this.#send(stream, null);
  }

  /** Undefined: it is over already. Throws for one that never was. */
  #stream(id: number): Stream | undefined {
    if (id % 2 === 0 || id >= this.#nextId)
      throw protocolError(`an answer to a request ${id} that there is not`);
    return this.#streams.get(id);
  }
}

/** `onBytes`: of what is received, there only until it returns. */
function connect(
  { host, port, tls }: Peer,
  onConnected: () => void,
  onBytes: (bytes: Buffer) => void,
): Socket {
  let socket: Socket;
  if (tls === null) {
    // One buffer for all that is read: node would allocate 64 KiB for each of etcd's small answers.
    const buffer = Buffer.allocUnsafeSlow(readBytes);
    const callback = (length: number): boolean => {
      onBytes(buffer.subarray(0, length));
      return true;
    };
    socket = connectTcp({ host, port, onread: { buffer, callback } }, onConnected);
  } else {
    const { ca, cert, key } = tls;
    const secure: TLSSocket = connectTls(
      {
        host,
        port,
        ca,
        ...(cert !== null && key !== null && { cert, key }),
        ALPNProtocols: ['h2'],
        // An address must not be sent as a name (RFC 6066, section 3); the certificate is checked against it all the same.
        servername: isIP(host) === 0 ? host : '',
      },
      () => {
        if (secure.alpnProtocol !== 'h2') {
          secure.destroy(new Error('it speaks TLS, but not HTTP/2 in it'));
          return;
        }
        secure.on('data', onBytes);
        onConnected();
      },
    );
    socket = secure;
  }
  return socket.setNoDelay(true);
}

function numberIn(payload: Buffer): number {
  if (payload.length !== 4) throw new ProtocolError(ErrorCode.frameSizeError, 'a number cut off');
  return payload.readUInt32BE(0);
}

function protocolError(message: string): ProtocolError {
  return new ProtocolError(ErrorCode.protocolError, message);
}

function closing(): Error {
  return new Error('the peer is closing the connection');
}
