/** A Unix socket on which frames come in: its connections, how many there may be, who waits, and how it ends. */
import { createServer, type Server, type Socket } from 'node:net';
import { Connection, type FrameResult } from './connection.js';
import { listenOn, type SocketPurpose } from './socket-file.js';

export interface ListenerOptions {
  readonly purpose: SocketPurpose;
  readonly socketPath: string;
  /** The group that may connect, besides root: its name or number; null: the daemon's own. */
  readonly group: string | null;
  readonly frameBytesMax: number;
  readonly connectionsMax: number;
  /** A frame that has begun must end within this. */
  readonly frameTimeoutMs: number;
  readonly nowUs: () => number;
  readonly log: { warn(fields: object, message: string): void };
}

export interface ListenerEvents {
  /** A whole frame's message lies there. May throw a DecodeError or an InvalidIdError: its connection is closed then. */
  message(bytes: Uint8Array, start: number, end: number, from: Connection): void;
  /** The frame that a connection is closed for. */
  refused(result: FrameResult): void;
  closed?(connection: Connection): void;
}

/** How long stop() lets those who are connected wait to hear that what they said is accepted. */
const lastAcknowledgementsMs = 1000;
/** What fits into a socket's buffer (212,992 bytes by default) has been read after so many turns; more is not waited for. */
const lastTurnsMax = 16;

export class Listener {
  readonly #options: ListenerOptions;
  readonly #events: ListenerEvents;
  readonly #connections = new Set<Connection>();
  #server: Server | null = null;
  #paused = false;
  #durableSeq = 0;
  #nextId = 1;

  constructor(options: ListenerOptions, events: ListenerEvents) {
    this.#options = options;
    this.#events = events;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Rejects with a FeedSocketError where the socket cannot be had. */
  async start(): Promise<void> {
    const { socketPath, group, purpose, log } = this.#options;
    // Half open: one that has closed its writing side still hears what was accepted.
    const server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket));
    await listenOn(server, socketPath, group, purpose);
    server.on('error', (error) => log.warn({ error: error.message }, `the ${purpose.name} cannot accept`));
    this.#server = server;
  }

  /** Takes what was written before, lets those who wrote hear what is accepted of it, and closes. */
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

  /** Reads no more until resume(): who writes has to wait. */
  pause(): void {
    this.#paused = true;
    for (const connection of this.#connections) connection.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    for (const connection of this.#connections) connection.resume();
  }

  /** Everything up to this seq is in the journal for good: who said it hears of it. */
  durable(seq: number): void {
    this.#durableSeq = seq;
    for (const connection of this.#connections) connection.durable(seq);
  }

  #accept(socket: Socket): void {
    if (this.#connections.size >= this.#options.connectionsMax) this.#closeOldestIdle();
    const { frameBytesMax, frameTimeoutMs, nowUs, log, purpose } = this.#options;
    const connection = new Connection(
      socket,
      this.#durableSeq,
      { id: this.#nextId++, to: purpose.name, frameBytesMax, frameTimeoutMs, nowUs, log },
      {
        message: (bytes, start, end, from) => this.#events.message(bytes, start, end, from),
        refused: (result) => this.#events.refused(result),
        closed: () => {
          this.#connections.delete(connection);
          this.#events.closed?.(connection);
        },
      },
    );
    this.#connections.add(connection);
    if (this.#paused) connection.pause();
  }

  /** Those that have said nothing yet first: else many that connect at once would push out one that only pauses. */
  #closeOldestIdle(): void {
    const silent = [...this.#connections].filter(({ chunks }) => chunks === 0);
    const [oldest] = (silent.length > 0 ? silent : [...this.#connections]).sort(
      (a, b) => a.heardAtMs - b.heardAtMs,
    );
    oldest?.giveWay('another one connects, and this one was silent the longest');
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
