/**
 * Raw calls to etcd: the bytes of a request out, the bytes of its answer in, with nothing in between that decodes,
 * repeats or gives up by itself. One endpoint at a time, the next one where it does not answer; the token where etcd
 * wants one. Transactions (transport.ts) and watches (watch.ts) go through it.
 */
import {
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
} from '@grpc/grpc-js';
import { bytesField, Reader } from '../wire/protobuf.js';
import { classify, type Failure, isOldAuthRevision } from './classify.js';
import { channelOptions, type EtcdConnection, type OpenedConnection, openConnection } from './connection.js';

export type CallOutcome =
  | { readonly kind: 'response'; readonly bytes: Buffer }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** A storm of refusals must not become a storm of authentications, each of which costs etcd a bcrypt. */
const authenticateEveryMs = 1000;
/** A connection whose peer vanished without a word is given up after so many calls without an answer. */
const timeoutsMax = 3;

export class EtcdChannel {
  readonly #opened: OpenedConnection;
  readonly #credentials: ChannelCredentials;
  readonly #clients: (Client | undefined)[] = [];
  #current: number;
  #timeouts = 0;
  #closed = false;

  #metadata: Metadata | null = null;
  #authenticating: Promise<Failure | null> | null = null;
  #authenticatedAtMs = Number.NEGATIVE_INFINITY;
  #authFailure: Failure | null = null;
  /** Tokens that etcd called old right after it had issued them. */
  #oldTokens = 0;

  /** Reads the files of the connection; throws an EtcdConnectionError. Connects with the first call. */
  constructor(connection: EtcdConnection) {
    this.#opened = openConnection(connection);
    const { tls, targets } = this.#opened;
    this.#credentials =
      tls === null ? credentials.createInsecure() : credentials.createSsl(tls.ca, tls.key, tls.cert);
    // Not always the first: a fleet shares itself out over the members.
    this.#current = Math.floor(Math.random() * targets.length);
  }

  /** A unary call, `path` such as `/etcdserverpb.KV/Txn`. Never rejects. */
  async call(path: string, request: Uint8Array): Promise<CallOutcome> {
    const metadata = this.#metadata ?? (await this.#authenticated());
    if (!(metadata instanceof Metadata)) return { kind: 'failed', failure: metadata };
    const outcome = await this.#send(path, request, metadata);
    if (outcome.kind === 'response') this.#oldTokens = 0;
    else if (outcome.failure.kind === 'unauthenticated') this.#refused(metadata, outcome.failure.message);
    return outcome;
  }

  /** Opens a stream without a deadline; its errors are the caller's, who tells failed() of them. Never rejects. */
  async stream(path: string): Promise<ClientDuplexStream<Uint8Array, Buffer> | Failure> {
    const metadata = this.#metadata ?? (await this.#authenticated());
    if (!(metadata instanceof Metadata)) return metadata;
    const own = metadata.clone();
    // A member cut off from the others ends the stream instead of being silent for as long as that lasts.
    own.set('hasleader', 'true');
    return this.#client(this.#current).makeBidiStreamRequest(path, asBuffer, asIs, own, {});
  }

  /** A stream has ended so. */
  failed(failure: Failure): void {
    if (failure.kind === 'unauthenticated' || failure.kind === 'denied') this.#metadata = null;
    this.#learn(this.#current, failure);
  }

  /** Ends what is under way as unavailable. */
  close(): void {
    this.#closed = true;
    this.#closeClients();
  }

  #send(path: string, request: Uint8Array, metadata: Metadata): Promise<CallOutcome> {
    const index = this.#current;
    const deadline = Date.now() + this.#opened.deadlineMs;
    return new Promise((resolve) => {
      const done = (error: Error | null, bytes?: Buffer) => {
        if (error === null && bytes !== undefined) {
          if (index === this.#current) this.#timeouts = 0;
          resolve({ kind: 'response', bytes });
          return;
        }
        const failure = classify(error);
        this.#learn(index, failure);
        resolve({ kind: 'failed', failure });
      };
      try {
        this.#client(index).makeUnaryRequest(path, asBuffer, asIs, request, metadata, { deadline }, done);
      } catch (error) {
        done(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  #client(index: number): Client {
    if (this.#closed) throw new Error('14 UNAVAILABLE: this connection to etcd has been closed');
    this.#clients[index] ??= new Client(this.#opened.targets[index]!, this.#credentials, channelOptions);
    return this.#clients[index];
  }

  /** From one endpoint to the next, once for all the calls that fail together. */
  #learn(index: number, failure: Failure): void {
    if (failure.kind !== 'unclear' || failure.reason === 'noSpace' || index !== this.#current) return;
    if (failure.reason === 'timeout' && ++this.#timeouts >= timeoutsMax) this.#closeClient(index);
    if (this.#opened.targets.length === 1) return;
    this.#current = (index + 1) % this.#opened.targets.length;
    this.#timeouts = 0;
  }

  #closeClient(index: number): void {
    this.#clients[index]?.close();
    this.#clients[index] = undefined;
    this.#timeouts = 0;
  }

  #closeClients(): void {
    for (let index = 0; index < this.#clients.length; index++) this.#closeClient(index);
  }

  // --- tokens ----------------------------------------------------------------------------------------------------

  #refused(metadata: Metadata, message: string): void {
    if (metadata !== this.#metadata) return; // a newer one is there already
    this.#metadata = null;
    if (!isOldAuthRevision(message)) return;
    // Seen with JWT tokens after a change of roles: the connection itself has to be a new one.
    this.#oldTokens++;
    if (this.#oldTokens > 1) this.#closeClients();
  }

  /** What to send along with a call, or why there is none. */
  async #authenticated(): Promise<Metadata | Failure> {
    if (this.#opened.auth === null) {
      this.#metadata = new Metadata();
      return this.#metadata;
    }
    if (this.#authenticating === null) {
      const sinceMs = performance.now() - this.#authenticatedAtMs;
      if (sinceMs < authenticateEveryMs) {
        const message = `etcd refused the token that it issued ${Math.round(sinceMs)} ms ago; the next one is asked for a second after that`;
        return this.#authFailure ?? { kind: 'unauthenticated', message };
      }
      this.#authenticatedAtMs = performance.now();
      this.#authenticating = this.#authenticate(this.#opened.auth).finally(() => {
        this.#authenticating = null;
      });
    }
    this.#authFailure = await this.#authenticating;
    return (
      this.#authFailure ?? this.#metadata ?? { kind: 'unauthenticated', message: 'the token was refused' }
    );
  }

  /** AuthenticateRequest: name 1, password 2. AuthenticateResponse: header 1, token 2. */
  async #authenticate({ name, password }: { name: string; password: string }): Promise<Failure | null> {
    const request = Buffer.concat([bytesField(1, name), bytesField(2, password)]);
    const outcome = await this.#send('/etcdserverpb.Auth/Authenticate', request, new Metadata());
    if (outcome.kind === 'failed') {
      // A user is set, but etcd wants none: as long as that is so, calls go without a token.
      if (!outcome.failure.message.includes('authentication is not enabled')) return outcome.failure;
      this.#metadata = new Metadata();
      return null;
    }
    const reader = new Reader(outcome.bytes);
    const metadata = new Metadata();
    while (!reader.done) {
      const tag = reader.tag();
      if (tag === 18) metadata.set('token', reader.string());
      else reader.skip(tag);
    }
    this.#metadata = metadata;
    return null;
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}
