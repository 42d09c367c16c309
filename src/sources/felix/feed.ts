/**
 * The feed socket: a dataplane writes FromDataplane frames to it (docs/design.md, section 5.2).
 *
 * An extension for feeders that want to know: where a frame carries a sequence number, a frame comes back once what
 * it said is accepted, durable in the journal: ToDataplane with only sequence_number, the highest one accepted so far.
 * Numbers are the feeder's own and rise. What was not acknowledged when a connection broke may or may not have been
 * accepted; sending it again is safe as long as there is one such transition per endpoint, since a status that an
 * endpoint has already is no transition.
 */
import { chmodSync, chownSync, lstatSync, mkdirSync, readFileSync, unlinkSync } from 'node:fs';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { InvalidIdError } from '../../endpoints/key.js';
import { DecodeError } from '../../wire/protobuf.js';
import type { EndpointSource, ObservationSink } from '../source.js';
import { FrameError, FrameSplitter, frame } from './frames.js';
import { encodeAck, FromDataplaneDecoder } from './messages.js';

export type FrameResult = 'ok' | 'ignored' | 'invalid' | 'tooLong' | 'cutShort' | 'timeout';

export interface FeedOptions {
  readonly socketPath: string;
  /** The group that may connect, besides root; null: the daemon's own. */
  readonly group: string | null;
  readonly frameBytesMax: number;
  readonly connectionsMax: number;
  /** A frame that has begun must end within this. */
  readonly frameTimeoutMs: number;
  readonly sink: ObservationSink;
  readonly nowUs: () => number;
  readonly onFrame: (result: FrameResult) => void;
  readonly onInSync: () => void;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

export class FeedSocketError extends Error {
  readonly code = 'FEED_SOCKET';
}

export class FeedSource implements EndpointSource {
  readonly name = 'felix';
  readonly #options: FeedOptions;
  readonly #connections = new Set<Connection>();
  #server: Server | null = null;
  #paused = false;
  #inSync = false;
  #durableSeq = 0;
  #nextId = 1;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  get inSync(): boolean {
    return this.#inSync;
  }

  get connections(): number {
    return this.#connections.size;
  }

  async start(): Promise<void> {
    const { socketPath, group } = this.#options;
    try {
      mkdirSync(dirname(socketPath), { recursive: true, mode: 0o750 });
      await removeStale(socketPath);
      const server = createServer((socket) => this.#accept(socket));
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(socketPath, resolve);
      });
      chmodSync(socketPath, 0o660);
      if (group !== null) chownSync(socketPath, process.getuid?.() ?? -1, groupId(group));
      server.on('error', (error) =>
        this.#options.log.warn({ error: error.message }, 'the feed socket cannot accept'),
      );
      this.#server = server;
    } catch (cause) {
      if (cause instanceof FeedSocketError) throw cause;
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new FeedSocketError(
        `cannot open the feed socket ${socketPath}: ${why}. Choose another path (--feed-socket PATH) or switch it off (--feed-socket off)`,
        { cause },
      );
    }
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    for (const connection of this.#connections) connection.close();
    if (server !== null) await new Promise<void>((resolve) => server.close(() => resolve()));
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
    for (const connection of this.#connections) connection.forgetNumbers();
  }

  /** Everything up to this seq is in the journal for good: feeders hear of it. */
  durable(seq: number): void {
    this.#durableSeq = seq;
    for (const connection of this.#connections) connection.acknowledge(seq);
  }

  #accept(socket: Socket): void {
    if (this.#connections.size >= this.#options.connectionsMax) this.#closeOldestIdle();
    const connection = new Connection(this.#nextId++, socket, this.#options, {
      closed: () => this.#connections.delete(connection),
      inSync: () => {
        this.#inSync = true;
        this.#options.onInSync();
      },
      durableSeq: () => this.#durableSeq,
    });
    this.#connections.add(connection);
    if (this.#paused) connection.pause();
  }

  #closeOldestIdle(): void {
    const [oldest] = [...this.#connections].sort((a, b) => a.heardAtMs - b.heardAtMs);
    oldest?.fail('another one connects, and this one was silent the longest', null);
  }
}

interface ConnectionEvents {
  closed(): void;
  inSync(): void;
  durableSeq(): number;
}

class Connection {
  heardAtMs = performance.now();
  readonly #id: number;
  readonly #socket: Socket;
  readonly #options: FeedOptions;
  readonly #events: ConnectionEvents;
  readonly #splitter: FrameSplitter;
  readonly #decoder: FromDataplaneDecoder;
  #timer: NodeJS.Timeout | null = null;
  #failed = false;
  /** What is to be acknowledged: once this seq is durable, up to this sequence number. One entry for each chunk read. */
  #awaiting: { seq: number; sequenceNumber: number }[] = [];
  #toAcknowledge = 0;
  #acknowledged = 0;

  constructor(id: number, socket: Socket, options: FeedOptions, events: ConnectionEvents) {
    this.#id = id;
    this.#socket = socket;
    this.#options = options;
    this.#events = events;
    this.#decoder = new FromDataplaneDecoder((endpoint) => options.sink.intern(endpoint));
    let seq = 0;
    let sequenceNumber = 0;
    this.#splitter = new FrameSplitter(options.frameBytesMax, (message) => {
      const decoded = this.#decoder.decode(message);
      if (decoded.kind === 'status') {
        seq = options.sink.observe(decoded.endpoint, decoded.status, options.nowUs());
      } else if (decoded.kind === 'inSync') {
        events.inSync();
      }
      if (decoded.sequenceNumber > 0) sequenceNumber = decoded.sequenceNumber;
      options.onFrame(decoded.kind === 'other' ? 'ignored' : 'ok');
    });
    socket.on('data', (chunk) => {
      this.#read(chunk);
      if (sequenceNumber > 0) this.#await(seq, sequenceNumber);
      sequenceNumber = 0;
    });
    socket.on('drain', () => this.#write());
    socket.on('end', () => this.#ended());
    socket.on('error', (error) => this.fail(`the connection broke: ${error.message}`, null));
    socket.on('close', () => {
      this.#disarm();
      events.closed();
    });
  }

  forgetNumbers(): void {
    this.#decoder.forgetNumbers();
  }

  pause(): void {
    this.#socket.pause();
    this.#disarm(); // the wait is ours
  }

  resume(): void {
    this.#socket.resume();
  }

  close(): void {
    this.#failed = true;
    this.#socket.destroy();
  }

  fail(why: string, result: FrameResult | null): void {
    if (this.#failed) return;
    this.#failed = true;
    if (result !== null) this.#options.onFrame(result);
    this.#options.log.warn({ connection: this.#id, why }, 'a feed connection is closed');
    this.#socket.destroy();
  }

  acknowledge(durableSeq: number): void {
    let done = 0;
    for (const { seq, sequenceNumber } of this.#awaiting) {
      if (seq > durableSeq) break;
      this.#toAcknowledge = sequenceNumber;
      done++;
    }
    if (done === 0) return;
    this.#awaiting.splice(0, done);
    this.#write();
  }

  #await(seq: number, sequenceNumber: number): void {
    this.#awaiting.push({ seq, sequenceNumber });
    this.acknowledge(this.#events.durableSeq());
  }

  /** A feeder that does not read its acknowledgements gets the latest one when it does. */
  #write(): void {
    if (this.#toAcknowledge === this.#acknowledged || this.#socket.writableNeedDrain || this.#failed) return;
    this.#acknowledged = this.#toAcknowledge;
    this.#socket.write(frame(encodeAck(this.#acknowledged)));
  }

  #read(chunk: Buffer): void {
    if (this.#failed) return;
    this.heardAtMs = performance.now();
    try {
      this.#splitter.push(chunk);
    } catch (error) {
      this.#refuse(error);
      return;
    }
    if (!this.#splitter.midFrame) {
      this.#disarm();
      return;
    }
    this.#timer ??= setTimeout(() => {
      this.fail(`a frame has not ended within ${this.#options.frameTimeoutMs} ms`, 'timeout');
    }, this.#options.frameTimeoutMs);
  }

  #ended(): void {
    try {
      this.#splitter.end();
      this.#socket.end();
    } catch (error) {
      this.#refuse(error);
    }
  }

  #refuse(error: unknown): void {
    if (error instanceof FrameError) {
      this.fail(error.message, error.code === 'FRAME_TOO_LONG' ? 'tooLong' : 'cutShort');
    } else if (error instanceof DecodeError || error instanceof InvalidIdError) {
      this.fail(`a frame that makes no sense: ${error.message}`, 'invalid');
    } else {
      throw error; // ours, not the feeder's
    }
  }

  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/** A socket file that nobody listens on is left from a process that died. */
async function removeStale(path: string): Promise<void> {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isSocket())
    throw new FeedSocketError(`${path} exists and is no socket: it is left as it is. Choose another path`);
  const alive = await new Promise<boolean>((resolve) => {
    const probe = createConnection(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    probe.once('error', () => resolve(false));
  });
  if (alive)
    throw new FeedSocketError(
      `another process listens on ${path}. Stop it, or choose another path (--feed-socket PATH)`,
    );
  unlinkSync(path);
}

function groupId(group: string): number {
  if (/^\d+$/.test(group)) return Number(group);
  for (const line of readFileSync('/etc/group', 'utf8').split('\n')) {
    const [name, , id] = line.split(':');
    if (name === group && id !== undefined) return Number(id);
  }
  throw new FeedSocketError(`there is no group ${group} on this machine`);
}
