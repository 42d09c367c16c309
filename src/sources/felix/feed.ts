/**
 * The feed socket: a dataplane writes FromDataplane frames to it (docs/design.md, section 5.2).
 *
 * An extension for feeders that want to know: where a frame carries a sequence number, a frame comes back once what
 * it said is accepted, durable in the journal: ToDataplane with only sequence_number, the highest one accepted so far.
 * Numbers are the feeder's own and rise. A feeder that has said all may close its writing side and hear the rest: its
 * connection ends after the last acknowledgement. What was not acknowledged when a connection broke may or may not have
 * been accepted; sending it again is safe as long as there is one such transition per endpoint, since a status that an
 * endpoint has already is no transition.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { EndpointSource, ObservationSink } from '../source.js';
import { Connection, type FrameResult } from './connection.js';
import { FromDataplaneDecoder, type ProcessStatus } from './messages.js';
import { listenOn } from './socket-file.js';

export type { FrameResult } from './connection.js';
export { FeedSocketError } from './socket-file.js';

export interface FeedOptions {
  readonly socketPath: string;
  /** The group that may connect, besides root: its name or number; null: the daemon's own. */
  readonly group: string | null;
  readonly frameBytesMax: number;
  readonly connectionsMax: number;
  /** A frame that has begun must end within this. */
  readonly frameTimeoutMs: number;
  readonly sink: ObservationSink;
  readonly nowUs: () => number;
  readonly onFrame: (result: FrameResult) => void;
  /** A dataplane has told everything that there is. */
  readonly onInSync: () => void;
  /** A dataplane's heartbeat. */
  readonly onProcessStatus?: (status: ProcessStatus) => void;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** How long stop() lets feeders wait to hear that what they said is accepted. */
const lastAcknowledgementsMs = 1000;
/** What fits into a socket's buffer (212,992 bytes by default) has been read after so many turns; more is not waited for. */
const lastTurnsMax = 16;

export class FeedSource implements EndpointSource {
  readonly name = 'felix';
  readonly #options: FeedOptions;
  readonly #decoder: FromDataplaneDecoder;
  readonly #connections = new Set<Connection>();
  #server: Server | null = null;
  #paused = false;
  #inSync = false;
  #durableSeq = 0;
  #seq = 0;
  #nextId = 1;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.#decoder = new FromDataplaneDecoder((id) => options.sink.intern(id));
  }

  get inSync(): boolean {
    return this.#inSync;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Rejects with a FeedSocketError where the socket cannot be had. */
  async start(): Promise<void> {
    // Half open: one that has closed its writing side still hears what was accepted.
    const server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket));
    await listenOn(server, this.#options.socketPath, this.#options.group);
    server.on('error', (error) =>
      this.#options.log.warn({ error: error.message }, 'the feed socket cannot accept'),
    );
    this.#server = server;
  }

  /** Takes what was written before, lets the feeders hear what is accepted of it, and closes. */
  async stop(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    if (!this.#paused) await this.#readOut();
    for (const connection of this.#connections) connection.pause();
    const untilMs = performance.now() + lastAcknowledgementsMs;
    while ([...this.#connections].some((one) => one.awaitsAcknowledgement) && performance.now() < untilMs)
      await new Promise((resolve) => setTimeout(resolve, 5));
    for (const connection of this.#connections) connection.close();
    await closed;
  }

  /** Reads no more until resume(): its feeders wait. */
  pause(): void {
    this.#paused = true;
    for (const connection of this.#connections) connection.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    for (const connection of this.#connections) connection.resume();
  }

  /** Endpoints' numbers are given out anew: what is kept by number is void. */
  forgetNumbers(): void {
    this.#decoder.forgetNumbers();
  }

  /** Everything up to this seq is in the journal for good: feeders hear of it. */
  durable(seq: number): void {
    this.#durableSeq = seq;
    for (const connection of this.#connections) connection.durable(seq);
  }

  #accept(socket: Socket): void {
    if (this.#connections.size >= this.#options.connectionsMax) this.#closeOldestIdle();
    const { frameBytesMax, frameTimeoutMs, log } = this.#options;
    const connection = new Connection(
      socket,
      this.#durableSeq,
      { id: this.#nextId++, frameBytesMax, frameTimeoutMs, log },
      {
        message: (message, from) => this.#message(message, from),
        refused: (result) => this.#options.onFrame(result),
        closed: () => this.#connections.delete(connection),
      },
    );
    this.#connections.add(connection);
    if (this.#paused) connection.pause();
  }

  #message(message: Uint8Array, from: Connection): void {
    const { sink, nowUs, onFrame, onInSync, onProcessStatus } = this.#options;
    const { kind, endpoint, status, processStatus, sequenceNumber } = this.#decoder.decode(message);
    if (kind === 'status') {
      this.#seq = sink.observe(endpoint, status, nowUs());
    } else if (kind === 'inSync') {
      this.#inSync = true;
      onInSync();
    } else if (kind === 'processStatus') {
      onProcessStatus?.(processStatus!);
    }
    from.heard(sequenceNumber, this.#seq);
    onFrame(kind === 'other' ? 'ignored' : 'ok');
  }

  #closeOldestIdle(): void {
    const [oldest] = [...this.#connections].sort((a, b) => a.heardAtMs - b.heardAtMs);
    oldest?.giveWay();
  }

  /** Returns when two turns of the loop, each with a poll for I/O, have brought nothing. */
  async #readOut(): Promise<void> {
    let quiet = 0;
    for (let turn = 0; quiet < 3 && turn < lastTurnsMax; turn++) {
      const before = this.#chunks();
      await new Promise((resolve) => setImmediate(resolve));
      quiet = this.#chunks() === before ? quiet + 1 : 0;
    }
  }

  #chunks(): number {
    let chunks = 0;
    for (const connection of this.#connections) chunks += connection.chunks;
    return chunks;
  }
}
