/**
 * The driver socket: what `flapd felix-driver` sees between Felix and its dataplane (docs/design.md, section 5.2; the
 * messages: driver-messages.ts).
 *
 * Which endpoints there are is known when Felix has said InSync: it has then told all definitions, and a snapshot's
 * missing ones are gone. Not before that: a Felix that has just been started knows of none, and its endpoints are all
 * there. DataplaneInSync says that the dataplane has acted on all that; nothing follows from it here, since an
 * endpoint's status is taken as it is told, and until then follows from its interface.
 */
import type { Definition } from '../../endpoints/derive.js';
import { type EndpointId, idKey } from '../../endpoints/id.js';
import { InvalidIdError } from '../../endpoints/key.js';
import { Status } from '../../endpoints/status.js';
import { DecodeError } from '../../wire/protobuf.js';
import type { EndpointSource } from '../source.js';
import type { Connection, FrameResult } from './connection.js';
import { type DriverMessage, decodeDriverMessage, driverFrameBytesMax } from './driver-messages.js';
import { decodeFromDataplane, type ProcessStatus } from './from-dataplane.js';
import { Listener } from './listener.js';
import { decodeToDataplane } from './to-dataplane.js';

/** Each returns the seq after which what it was told counts as accepted, once that is durable. May throw an InvalidIdError. */
export interface DriverFeedEvents {
  /** An endpoint is defined, or defined anew, perhaps just as before. */
  defined(definition: Definition, atUs: number): number;
  /** An endpoint is there no more; perhaps one that never was. */
  removed(id: EndpointId, atUs: number): number;
  /** The dataplane itself says an endpoint's status. */
  told(id: EndpointId, status: Status, atUs: number): number;
  processStatus(status: ProcessStatus): void;
  /** All endpoints that there are have been told, and those that are gone have been removed. Comes again with each Felix. */
  inSync(): void;
}

export interface DriverFeedOptions {
  readonly socketPath: string;
  /** The group that may connect, besides root: its name or number; null: the daemon's own. */
  readonly group: string | null;
  /** A frame that has begun must end within this. */
  readonly frameTimeoutMs: number;
  readonly nowUs: () => number;
  readonly onFrame: (result: FrameResult) => void;
  readonly events: DriverFeedEvents;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

interface Known {
  readonly id: EndpointId;
  /** One that is defined is known until its definition goes, also after its dataplane has said that it is removed. */
  readonly defined: boolean;
}

/** One is in use. Others: the one before it, that does not know yet that its peer is gone; somebody asking who listens. */
const connectionsMax = 4;

export class DriverFeed implements EndpointSource {
  readonly name = 'felix';
  readonly #options: DriverFeedOptions;
  readonly #listener: Listener;
  /** The connection whose snapshot was the last one to begin. */
  #current: Connection | null = null;
  #inSnapshot = false;
  /** Felix has told all definitions, as far as this connection knows. */
  #felixInSync = false;
  #inSync = false;
  /** By idKey(): the endpoints that are defined or told. */
  readonly #known = new Map<string, Known>();
  /** Those of them that were so before this connection, and have not been named by it. */
  #unconfirmed = new Map<string, Known>();
  #seq = 0;

  constructor(options: DriverFeedOptions) {
    this.#options = options;
    const { socketPath, group, frameTimeoutMs, log } = options;
    this.#listener = new Listener(
      {
        purpose: { name: 'driver socket', option: '--set driver.socket=' },
        frameBytesMax: driverFrameBytesMax,
        connectionsMax,
        socketPath,
        group,
        frameTimeoutMs,
        nowUs: options.nowUs,
        log,
      },
      {
        message: (bytes, start, end, from) => this.#message(bytes.subarray(start, end), from),
        refused: (result) => options.onFrame(result),
        closed: (connection) => this.#closed(connection),
      },
    );
  }

  /** Whether an endpoint that was not named does not exist. Stays so when felix-driver goes; until it comes anew. */
  get inSync(): boolean {
    return this.#inSync;
  }

  /** Whether a felix-driver is there. */
  get connected(): boolean {
    return this.#current !== null;
  }

  /** Rejects with a FeedSocketError where the socket cannot be had. */
  start(): Promise<void> {
    return this.#listener.start();
  }

  /** Takes what was written before, lets felix-driver hear what is accepted of it, and closes. */
  stop(): Promise<void> {
    return this.#listener.stop();
  }

  /** Reads no more until resume(): felix-driver keeps what it sees. */
  pause(): void {
    this.#listener.pause();
  }

  resume(): void {
    this.#listener.resume();
  }

  /** Everything up to this seq is in the journal for good: felix-driver hears of it. */
  durable(seq: number): void {
    this.#listener.durable(seq);
  }

  #message(bytes: Uint8Array, from: Connection): void {
    const message = decodeDriverMessage(bytes);
    if (message.kind === 'snapshotBegin') this.#begin(from);
    else if (from !== this.#current) throw new DecodeError('a connection has to begin with a snapshot');
    const result = this.#take(message);
    this.#settle();
    from.heard(message.sequenceNumber, this.#seq);
    this.#options.onFrame(result);
  }

  #begin(from: Connection): void {
    const { log } = this.#options;
    const before = this.#current;
    this.#current = from;
    this.#inSnapshot = true;
    this.#felixInSync = false;
    this.#inSync = false;
    this.#unconfirmed = new Map(this.#known);
    if (before === null) log.info({}, 'felix-driver has connected');
    else if (before !== from) before.giveWay('another felix-driver has connected: there can be only one');
  }

  #closed(connection: Connection): void {
    if (connection !== this.#current) return;
    this.#current = null;
    this.#options.log.info({}, 'felix-driver has gone: its endpoints stay as they are until it is back');
  }

  /** What makes no sense within a message is passed over, or it would be said again and again. */
  #take(message: DriverMessage): FrameResult {
    const { log, nowUs } = this.#options;
    try {
      switch (message.kind) {
        case 'toDataplane':
          return this.#takeToDataplane(message.content, message.observedAtUs ?? nowUs());
        case 'fromDataplane':
          return this.#takeFromDataplane(message.content, message.observedAtUs ?? nowUs());
        case 'snapshotBegin':
          return 'ok';
        case 'snapshotEnd':
          this.#inSnapshot = false;
          return 'ok';
        case 'other':
          return 'ignored';
      }
    } catch (error) {
      if (!(error instanceof DecodeError || error instanceof InvalidIdError)) throw error;
      log.warn({ why: error.message }, 'what felix-driver says makes no sense: it is passed over');
      return 'invalid';
    }
  }

  #takeToDataplane(content: Uint8Array, atUs: number): FrameResult {
    const told = decodeToDataplane(content);
    switch (told.kind) {
      case 'inSync':
        this.#felixInSync = true;
        return 'ok';
      case 'defined':
        this.#seq = this.#options.events.defined(told.definition, atUs);
        this.#remember(told.definition.id, true);
        return 'ok';
      case 'removed':
        this.#remove(told.id, atUs);
        return 'ok';
      case 'other':
        return 'ignored';
    }
  }

  #takeFromDataplane(content: Uint8Array, atUs: number): FrameResult {
    const told = decodeFromDataplane(content);
    switch (told.kind) {
      case 'status':
        this.#seq = this.#options.events.told(told.id, told.status, atUs);
        this.#heardStatus(told.id, told.status);
        return 'ok';
      case 'processStatus':
        this.#options.events.processStatus(told.processStatus);
        return 'ok';
      case 'inSync':
      case 'other':
        return 'ignored';
    }
  }

  /** What Felix did not name, though it has named all, is gone. */
  #settle(): void {
    if (this.#inSync || this.#inSnapshot || !this.#felixInSync) return;
    for (const { id } of this.#unconfirmed.values()) this.#remove(id, this.#options.nowUs());
    this.#inSync = true;
    this.#options.events.inSync();
  }

  #heardStatus(id: EndpointId, status: Status): void {
    const defined = this.#known.get(idKey(id))?.defined ?? false;
    if (status !== Status.removed) this.#remember(id, defined);
    else if (!defined) this.#forget(id);
  }

  #remember(id: EndpointId, defined: boolean): void {
    const key = idKey(id);
    this.#known.set(key, { id, defined });
    this.#unconfirmed.delete(key);
  }

  #remove(id: EndpointId, atUs: number): void {
    this.#forget(id);
    this.#seq = this.#options.events.removed(id, atUs);
  }

  #forget(id: EndpointId): void {
    const key = idKey(id);
    this.#known.delete(key);
    this.#unconfirmed.delete(key);
  }
}
