/**
 * Raw calls to etcd: the bytes of a request out, the bytes of its answer in, with nothing in between that decodes,
 * repeats or gives up by itself. One endpoint at a time, the next one where it does not answer; the token where etcd
 * wants one. Transactions (transport.ts) go by unary.ts, which costs less than @grpc/grpc-js; a watch (watch.ts) asks it for
 * the way and opens a stream of its own (stream.ts). So worker threads, which need no streams, do not load that library:
 * their imports take a third of the time.
 */
import { bytesField, Reader } from '../wire/protobuf.js';
import { classify, type Failure, isOldAuthRevision } from './classify.js';
import { type EtcdConnection, type OpenedConnection, openConnection } from './connection.js';
import { UnaryClient } from './unary.js';

export type CallOutcome =
  | { readonly kind: 'response'; readonly bytes: Buffer }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** Where to open a stream, and what with. Holds secrets: never to be logged. */
export interface Way extends Pass {
  /** host:port. */
  readonly target: string;
  readonly tls: OpenedConnection['tls'];
}

/** A storm of refusals must not become a storm of authentications, each of which costs etcd a bcrypt. */
const authenticateEveryMs = 1000;
/** A connection whose peer vanished without a word is given up after so many calls without an answer. */
const timeoutsMax = 3;

/** What a call is sent with: etcd's token, or none. A refusal is told of the one that was refused. */
interface Pass {
  readonly token: string | null;
}

const noToken: Pass = { token: null };

export class EtcdChannel {
  readonly #opened: OpenedConnection;
  readonly #clients: (UnaryClient | undefined)[] = [];
  #current: number;
  #timeouts = 0;
  #closed = false;

  #pass: Pass | null = null;
  #authenticating: Promise<Failure | null> | null = null;
  #authenticatedAtMs = Number.NEGATIVE_INFINITY;
  #authFailure: Failure | null = null;
  /** Tokens that etcd called old right after it had issued them. */
  #oldTokens = 0;

  /** Reads the files of the connection; throws an EtcdConnectionError. Connects with the first call. */
  constructor(connection: EtcdConnection) {
    this.#opened = openConnection(connection);
    // Not always the first: a fleet shares itself out over the members.
    this.#current = Math.floor(Math.random() * this.#opened.targets.length);
  }

  /** A unary call, `path` such as `/etcdserverpb.KV/Txn`. Never rejects. */
  async call(path: string, request: Uint8Array): Promise<CallOutcome> {
    const pass = this.#pass ?? (await this.#authenticated());
    if ('kind' in pass) return { kind: 'failed', failure: pass };
    const outcome = await this.#send(path, request, pass);
    if (outcome.kind === 'response') this.#oldTokens = 0;
    else if (outcome.failure.kind === 'unauthenticated') this.#refused(pass, outcome.failure.message);
    return outcome;
  }

  /** For a stream. Never rejects. */
  async way(): Promise<Way | Failure> {
    const pass = this.#pass ?? (await this.#authenticated());
    if ('kind' in pass) return pass;
    const { targets, tls } = this.#opened;
    return { target: targets[this.#current]!, tls, token: pass.token };
  }

  /** Ends what is under way as unavailable. */
  close(): void {
    this.#closed = true;
    this.#closeClients();
  }

  async #send(path: string, request: Uint8Array, { token }: Pass): Promise<CallOutcome> {
    const index = this.#current;
    try {
      const bytes = await this.#client(index).call(path, request, token, this.#opened.deadlineMs);
      if (index === this.#current) this.#timeouts = 0;
      return { kind: 'response', bytes };
    } catch (error) {
      const failure = classify(error);
      this.#learn(index, failure);
      return { kind: 'failed', failure };
    }
  }

  #client(index: number): UnaryClient {
    if (this.#closed) throw new Error('14 UNAVAILABLE: this connection to etcd has been closed');
    this.#clients[index] ??= new UnaryClient(this.#opened.targets[index]!, this.#opened.tls);
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
    for (let index = 0; index < this.#opened.targets.length; index++) this.#closeClient(index);
  }

  // --- tokens ----------------------------------------------------------------------------------------------------

  #refused(pass: Pass, message: string): void {
    if (pass !== this.#pass) return; // a newer one is there already
    this.#pass = null;
    if (!isOldAuthRevision(message)) return;
    // Seen with JWT tokens after a change of roles: the connection itself has to be a new one.
    this.#oldTokens++;
    if (this.#oldTokens > 1) this.#closeClients();
  }

  /** What to send along with a call, or why there is none. */
  async #authenticated(): Promise<Pass | Failure> {
    if (this.#opened.auth === null) {
      this.#pass = noToken;
      return this.#pass;
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
    return this.#authFailure ?? this.#pass ?? { kind: 'unauthenticated', message: 'the token was refused' };
  }

  /** AuthenticateRequest: name 1, password 2. AuthenticateResponse: header 1, token 2. */
  async #authenticate({ name, password }: { name: string; password: string }): Promise<Failure | null> {
    const request = Buffer.concat([bytesField(1, name), bytesField(2, password)]);
    const outcome = await this.#send('/etcdserverpb.Auth/Authenticate', request, noToken);
    if (outcome.kind === 'failed') {
      // A user is set, but etcd wants none: as long as that is so, calls go without a token.
      if (!outcome.failure.message.includes('authentication is not enabled')) return outcome.failure;
      this.#pass = { token: null };
      return null;
    }
    const reader = new Reader(outcome.bytes);
    let token: string | null = null;
    while (!reader.done) {
      const tag = reader.tag();
      if (tag === 18) token = reader.string();
      else reader.skip(tag);
    }
    this.#pass = { token };
    return null;
  }
}
