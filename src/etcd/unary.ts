/**
 * Unary gRPC calls over node's own HTTP/2 (gRPC over HTTP2, grpc/doc/PROTOCOL-HTTP2.md), for the hot path: one message
 * there, one back, no interceptors, no resolvers, no load balancing. Measured side by side, a transaction of 127
 * operations costs a third of the CPU that @grpc/grpc-js needs for it, one of 5 about half (docs/performance.md).
 *
 *     request   HEADERS (:method POST, :path, te, content-type, token), DATA (compressed u8 = 0, length u32, message)
 *     answer    HEADERS, DATA, trailers with grpc-status and grpc-message; or the two in the first HEADERS, without data
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2';
import { Code, codeName } from './code.js';
import type { OpenedConnection } from './connection.js';

/** A call that has no answer, or one that says why not. In the form that classify() knows from @grpc/grpc-js. */
export class UnaryError extends Error {
  readonly code: number;

  constructor(code: number, details: string, options?: ErrorOptions) {
    super(`${code} ${codeName(code)}: ${details}`, options);
    this.code = code;
  }
}

const prefixBytes = 5;
const { NGHTTP2_CANCEL } = constants;

/** One peer. It connects with its first call, and anew with the first one after a connection is lost. */
export class UnaryClient {
  readonly #url: string;
  readonly #tls: OpenedConnection['tls'];
  #session: ClientHttp2Session | null = null;
  #connecting: Promise<ClientHttp2Session> | null = null;
  #closed = false;

  /** `target`: host:port. */
  constructor(target: string, tls: OpenedConnection['tls']) {
    this.#url = `${tls === null ? 'http' : 'https'}://${target}`;
    this.#tls = tls;
  }

  /** Resolves with the answer's message. Rejects with a UnaryError: after `deadlineMs` at the latest. */
  call(path: string, request: Uint8Array, token: string | null, deadlineMs: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const call = new Call(resolve, reject, deadlineMs);
      const session = this.#usable();
      if (session !== null) {
        call.send(session, path, request, token);
        return;
      }
      this.#connect().then(
        (connected) => call.send(connected, path, request, token),
        (error: unknown) => call.fail(unavailable(error)),
      );
    });
  }

  /** Ends what is under way as unavailable. */
  close(): void {
    this.#closed = true;
    this.#session?.destroy();
    this.#session = null;
  }

  #usable(): ClientHttp2Session | null {
    const session = this.#session;
    return session === null || session.closed || session.destroyed ? null : session;
  }

  /** One attempt, for all the calls that come meanwhile. */
  #connect(): Promise<ClientHttp2Session> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  #open(): Promise<ClientHttp2Session> {
    return new Promise((resolve, reject) => {
      if (this.#closed) throw new Error('this connection to etcd has been closed');
      const { ca, cert, key } = this.#tls ?? { ca: undefined, cert: null, key: null };
      const session = connect(this.#url, {
        ...(ca !== undefined && { ca }),
        ...(cert !== null && key !== null && { cert, key }),
      });
      // A peer that takes the connection and then says nothing: calls end by their deadlines, and this by the next one's.
      session.setTimeout(connectTimeoutMs, () => {
        if (session.connecting) session.destroy(new Error('it does not answer'));
      });
      session.once('connect', () => {
        session.setTimeout(0);
        if (this.#closed) {
          session.destroy();
          reject(new Error('this connection to etcd has been closed'));
          return;
        }
        this.#session = session;
        resolve(session);
      });
      // Also says why calls under way end; that they do, each of them hears by itself.
      session.on('error', reject);
      session.once('close', () => {
        if (this.#session === session) this.#session = null;
        reject(new Error('the connection was closed'));
      });
    });
  }
}

const connectTimeoutMs = 5000;

class Call {
  readonly #resolve: (message: Buffer) => void;
  readonly #reject: (error: UnaryError) => void;
  readonly #timer: NodeJS.Timeout;
  #stream: ClientHttp2Stream | null = null;
  #settled = false;
  readonly #chunks: Buffer[] = [];
  /** Null until the peer has said it. */
  #status: number | null = null;
  #message = '';

  constructor(resolve: (message: Buffer) => void, reject: (error: UnaryError) => void, deadlineMs: number) {
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(
      () => this.fail(new UnaryError(Code.DEADLINE_EXCEEDED, `no answer within ${deadlineMs} ms`)),
      deadlineMs,
    );
  }

  send(session: ClientHttp2Session, path: string, request: Uint8Array, token: string | null): void {
    if (this.#settled) return; // its deadline was over before there was a connection
    const framed = Buffer.allocUnsafe(prefixBytes + request.length);
    framed[0] = 0;
    framed.writeUInt32BE(request.length, 1);
    framed.set(request, prefixBytes);
    let stream: ClientHttp2Stream;
    try {
      stream = session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
        ...(token !== null && { token }),
      });
    } catch (error) {
      this.fail(unavailable(error));
      return;
    }
    this.#stream = stream;
    stream.on('response', (headers) => this.#headers(headers));
    stream.on('trailers', (headers) => this.#headers(headers));
    stream.on('data', (chunk: Buffer) => this.#chunks.push(chunk));
    stream.on('error', (error) => this.fail(unavailable(error)));
    stream.on('close', () => this.#end());
    stream.end(framed);
  }

  fail(error: UnaryError): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#timer);
    this.#stream?.close(NGHTTP2_CANCEL);
    this.#reject(error);
  }

  #headers(headers: { readonly [name: string]: unknown }): void {
    const http = headers[':status'];
    if (http !== undefined && Number(http) !== 200) {
      this.fail(new UnaryError(Code.UNAVAILABLE, `HTTP status ${http} instead of an answer`));
      return;
    }
    const status = headers['grpc-status'];
    if (status === undefined) return;
    this.#status = Number(status);
    this.#message = decodeMessage(String(headers['grpc-message'] ?? ''));
  }

  #end(): void {
    if (this.#settled) return;
    if (this.#status === null) {
      this.fail(new UnaryError(Code.UNAVAILABLE, 'the connection was lost before there was an answer'));
      return;
    }
    if (this.#status !== 0) {
      this.fail(new UnaryError(this.#status, this.#message));
      return;
    }
    const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
    if (
      bytes.length < prefixBytes ||
      bytes[0] !== 0 ||
      bytes.readUInt32BE(1) !== bytes.length - prefixBytes
    ) {
      this.fail(new UnaryError(Code.INTERNAL, 'an answer that is not one whole message'));
      return;
    }
    this.#settled = true;
    clearTimeout(this.#timer);
    this.#resolve(bytes.subarray(prefixBytes));
  }
}

function unavailable(error: unknown): UnaryError {
  const message = error instanceof Error ? error.message : String(error);
  return new UnaryError(Code.UNAVAILABLE, message, { cause: error });
}

/** Percent-encoded, by gRPC's rules; what is not, is taken as it is. */
function decodeMessage(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
