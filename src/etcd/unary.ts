/**
 * Unary gRPC calls (gRPC over HTTP2, grpc/doc/PROTOCOL-HTTP2.md), for the hot path: one message there, one back, no interceptors,
 * no resolvers, no load balancing.
 *
 *     request   HEADERS (:method POST, :path, te, content-type, token), DATA (compressed u8 = 0, length u32, message)
 *     answer    HEADERS, DATA, trailers with grpc-status and grpc-message; or the two in the first HEADERS, without data
 */
import { Code, codeName } from './code.js';
import type { OpenedConnection } from './connection.js';
import { type AnswerFields, encodeRequest } from './http2/hpack.js';
import { type AnswerListener, type Exchange, Http2Session } from './http2/session.js';

/** A call that has no answer, or one that says why not. In the form that classify() knows from @grpc/grpc-js. */
export class UnaryError extends Error {
  readonly code: number;

  constructor(code: number, details: string, options?: ErrorOptions) {
    super(`${code} ${codeName(code)}: ${details}`, options);
    this.code = code;
  }
}

const prefixBytes = 5;
const connectTimeoutMs = 5000;

/** One peer. It connects with its first call, and anew with the first one after a connection is lost. */
export class UnaryClient {
  readonly #target: string;
  readonly #tls: OpenedConnection['tls'];
  /** The newest one last; those before it are being closed by the peer. */
  readonly #sessions: Http2Session[] = [];
  #connecting: Promise<Http2Session> | null = null;
  /** Of the last call: the next one's are the same, as long as the token is. */
  #fields: { readonly path: string; readonly token: string | null; readonly bytes: Buffer } | null = null;
  #closed = false;

  /** `target`: host:port. */
  constructor(target: string, tls: OpenedConnection['tls']) {
    this.#target = target;
    this.#tls = tls;
  }

  /** Resolves with the answer's message. Rejects with a UnaryError: after `deadlineMs` at the latest. */
  call(path: string, request: Uint8Array, token: string | null, deadlineMs: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const call = new Call(resolve, reject, deadlineMs);
      const fields = this.#requestFields(path, token);
      const session = this.#sessions.at(-1);
      if (session?.usable) {
        call.send(session, fields, request);
        return;
      }
      this.#connect().then(
        (connected) => call.send(connected, fields, request),
        (error: unknown) => call.fail(unavailable(error)),
      );
    });
  }

  /** Ends what is under way as unavailable. */
  close(): void {
    this.#closed = true;
    for (const session of this.#sessions.splice(0)) session.destroy(closedError());
  }

  #requestFields(path: string, token: string | null): Buffer {
    if (this.#fields?.path !== path || this.#fields.token !== token) {
      const scheme = this.#tls === null ? 'http' : 'https';
      this.#fields = { path, token, bytes: encodeRequest(scheme, this.#target, path, token) };
    }
    return this.#fields.bytes;
  }

  /** One attempt, for all the calls that come meanwhile. */
  #connect(): Promise<Http2Session> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  async #open(): Promise<Http2Session> {
    if (this.#closed) throw closedError();
    const { hostname, port } = new URL(`http://${this.#target}`);
    const peer = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80), tls: this.#tls }; // URL leaves 80 out
    const session = await Http2Session.open(peer, connectTimeoutMs, (ended) => {
      const index = this.#sessions.indexOf(ended);
      if (index >= 0) this.#sessions.splice(index, 1);
    });
    if (this.#closed) session.destroy(closedError());
    else this.#sessions.push(session);
    return session;
  }
}

class Call implements AnswerListener {
  readonly #resolve: (message: Buffer) => void;
  readonly #reject: (error: UnaryError) => void;
  readonly #timer: NodeJS.Timeout;
  #exchange: Exchange | null = null;
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

  send(session: Http2Session, fields: Buffer, request: Uint8Array): void {
    if (this.#settled) return; // its deadline was over before there was a connection
    const prefix = Buffer.alloc(prefixBytes);
    prefix.writeUInt32BE(request.length, 1);
    try {
      this.#exchange = session.request(fields, prefix, request, this);
    } catch (error) {
      this.fail(unavailable(error));
    }
  }

  fail(error: UnaryError): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#timer);
    this.#exchange?.cancel();
    this.#reject(error);
  }

  onFields({ httpStatus, grpcStatus, grpcMessage }: AnswerFields): void {
    if (httpStatus !== null && httpStatus !== '200') {
      if (!httpStatus.startsWith('1'))
        this.fail(new UnaryError(Code.UNAVAILABLE, `HTTP status ${httpStatus} instead of an answer`));
      return;
    }
    if (grpcStatus === null) return;
    this.#status = Number(grpcStatus);
    this.#message = decodeMessage(grpcMessage ?? '');
  }

  onData(chunk: Buffer): void {
    this.#chunks.push(Buffer.from(chunk));
  }

  onFailure(error: Error): void {
    this.fail(unavailable(error));
  }

  onEnd(): void {
    if (this.#status === null) {
      this.fail(new UnaryError(Code.UNAVAILABLE, 'an answer without its status'));
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

function closedError(): Error {
  return new Error('this connection to etcd has been closed');
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
