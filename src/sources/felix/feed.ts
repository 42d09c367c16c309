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
import type { EndpointSource, ObservationSink } from '../source.js';
import type { Connection, FrameResult } from './connection.js';
import { Listener } from './listener.js';
import { FromDataplaneDecoder, type ProcessStatus } from './messages.js';

export type { FrameResult } from './connection.js';
export { FeedSocketError } from './socket-file.js';

export interface FeedOptions {
  readonly socketPath: string;
  /** The group that may connect, besides root: its name or number; null: the daemon's own. */
  readonly group: string | null;
  readonly frameBytesMax: number;
  readonly connectionsMax: number;
  readonly endpointsMax: number;
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

export class FeedSource implements EndpointSource {
  readonly name = 'felix';
  readonly #options: FeedOptions;
  readonly #decoder: FromDataplaneDecoder;
  readonly #listener: Listener;
  #inSync = false;
  #seq = 0;

  constructor(options: FeedOptions) {
    this.#options = options;
    this.#decoder = new FromDataplaneDecoder((id) => options.sink.intern(id), options.endpointsMax);
    const purpose = { name: 'feed socket', option: '--feed-socket ' };
    this.#listener = new Listener(
      { ...options, purpose },
      {
        message: (bytes, start, end, from) => this.#message(bytes, start, end, from),
        refused: (result) => options.onFrame(result),
      },
    );
  }

  get inSync(): boolean {
    return this.#inSync;
  }

  get connections(): number {
    return this.#listener.connections;
  }

  /** Rejects with a FeedSocketError where the socket cannot be had. */
  start(): Promise<void> {
    return this.#listener.start();
  }

  /** Takes what was written before, lets the feeders hear what is accepted of it, and closes. */
  stop(): Promise<void> {
    return this.#listener.stop();
  }

  /** Reads no more until resume(): its feeders wait. */
  pause(): void {
    this.#listener.pause();
  }

  resume(): void {
    this.#listener.resume();
  }

  /** Endpoints' numbers are given out anew: what is kept by number is void. */
  forgetNumbers(): void {
    this.#decoder.forgetNumbers();
  }

  /** Everything up to this seq is in the journal for good: feeders hear of it. */
  durable(seq: number): void {
    this.#listener.durable(seq);
  }

  #message(bytes: Uint8Array, start: number, end: number, from: Connection): void {
    const { sink, onFrame, onInSync, onProcessStatus } = this.#options;
    const { kind, endpoint, status, processStatus, sequenceNumber } = this.#decoder.decode(bytes, start, end);
    if (kind === 'status') {
      this.#seq = sink.observe(endpoint, status, from.heardAtUs);
    } else if (kind === 'inSync') {
      this.#inSync = true;
      onInSync();
    } else if (kind === 'processStatus') {
      onProcessStatus?.(processStatus!);
    }
    from.heard(sequenceNumber, this.#seq);
    onFrame(kind === 'other' ? 'ignored' : 'ok');
  }
}
