/** One feeder's connection, or felix-driver's: its frames in, its acknowledgements out, and what it may not do. */
import type { Socket } from 'node:net';
import { InvalidIdError } from '../../endpoints/key.js';
import { DecodeError } from '../../wire/protobuf.js';
import { FrameError, FrameSplitter, frame } from './frames.js';
import { encodeAck } from './messages.js';

/** What became of a frame; what became of a connection's last one, where it is closed for that. */
export type FrameResult = 'ok' | 'ignored' | 'invalid' | 'tooLong' | 'cutShort' | 'timeout';

export interface ConnectionOptions {
  readonly id: number;
  /** The socket's name, for the log. */
  readonly to: string;
  readonly frameBytesMax: number;
  /** A frame that has begun must end within this. */
  readonly frameTimeoutMs: number;
  readonly nowUs: () => number;
  readonly log: { warn(fields: object, message: string): void };
}

export interface ConnectionEvents {
  /** A whole frame's message lies there. May throw a DecodeError or an InvalidIdError: the connection is closed then. */
  message(bytes: Uint8Array, start: number, end: number, from: Connection): void;
  /** The frame that the connection is closed for. */
  refused(result: FrameResult): void;
  /** Nothing more comes from it. */
  closed(): void;
}

export class Connection {
  heardAtMs = performance.now();
  /** When the chunk was read that the frame at hand ends in; Unix microseconds. */
  heardAtUs = 0;
  /** How many chunks have been read. */
  chunks = 0;
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #events: ConnectionEvents;
  readonly #splitter: FrameSplitter;
  #paused = false;
  /** It has said all, and hears what is still to be acknowledged. */
  #ended = false;
  #closed = false;
  /** Whole frames so far: whether one that is late has ended meanwhile. */
  #frames = 0;
  #frameBeganAtMs = 0;
  #timer: NodeJS.Timeout | null = null;
  /** Of the chunk at hand: the highest sequence number, and the seq after which all in it is accepted. */
  #sequenceNumber = 0;
  #seq = 0;
  /** What is to be acknowledged: up to this sequence number, once this seq is durable. At most one entry for each seq. */
  readonly #awaiting: { readonly seq: number; sequenceNumber: number }[] = [];
  #durableSeq: number;
  #toAcknowledge = 0;
  #acknowledged = 0;

  constructor(socket: Socket, durableSeq: number, options: ConnectionOptions, events: ConnectionEvents) {
    this.#socket = socket;
    this.#durableSeq = durableSeq;
    this.#options = options;
    this.#events = events;
    this.#splitter = new FrameSplitter(options.frameBytesMax, (bytes, start, end) => {
      this.#frames++;
      events.message(bytes, start, end, this);
    });
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('drain', () => this.#write());
    socket.on('end', () => this.#end());
    socket.on('error', (error) => {
      // One that has said all need not wait for what it hears.
      if (this.#ended) this.close();
      else this.#fail(`the connection broke: ${error.message}`);
    });
    socket.on('close', () => this.close());
  }

  /** Whether something it said is not acknowledged yet. */
  get awaitsAcknowledgement(): boolean {
    return this.#awaiting.length > 0;
  }

  /** From events.message(): the frame has this number (0: none), and is accepted once `seq` is durable. */
  heard(sequenceNumber: number, seq: number): void {
    this.#seq = Math.max(this.#seq, seq);
    this.#sequenceNumber = Math.max(this.#sequenceNumber, sequenceNumber);
  }

  pause(): void {
    this.#paused = true;
    this.#socket.pause();
    this.#disarm(); // it is us who wait
  }

  resume(): void {
    this.#paused = false;
    this.#socket.resume();
    if (this.#splitter.midFrame) this.#frameBegins();
  }

  /** All that it said up to this seq is in the journal for good. */
  durable(seq: number): void {
    this.#durableSeq = seq;
    let done = 0;
    for (const awaited of this.#awaiting) {
      if (awaited.seq > seq) break;
      this.#toAcknowledge = awaited.sequenceNumber;
      done++;
    }
    if (done === 0) return;
    this.#awaiting.splice(0, done);
    this.#write();
  }

  /** Room is needed for another one. */
  giveWay(why: string): void {
    this.#fail(why);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#disarm();
    this.#socket.destroy();
    this.#events.closed();
  }

  #read(chunk: Buffer): void {
    if (this.#closed) return;
    this.heardAtMs = performance.now();
    this.heardAtUs = this.#options.nowUs();
    this.chunks++;
    const framesBefore = this.#frames;
    const wasMidFrame = this.#splitter.midFrame;
    try {
      this.#splitter.push(chunk);
    } catch (error) {
      this.#refuse(error);
      return;
    }
    if (!this.#splitter.midFrame) this.#disarm();
    else if (!wasMidFrame || this.#frames > framesBefore) this.#frameBegins();
    this.#await();
    this.#giveOthersTheirTurn();
  }

  /**
   * One chunk in one turn of the loop: libuv would read up to 32 of them from one that never stops talking. Measured with
   * one, at 250,000 frames a second both ways: turns of 12 ms at worst, of 150 ms otherwise; with four, 50 and 500 ms.
   */
  #giveOthersTheirTurn(): void {
    this.#socket.pause();
    setImmediate(() => {
      if (!this.#paused && !this.#closed) this.#socket.resume();
    });
  }

  #await(): void {
    if (this.#sequenceNumber <= (this.#awaiting.at(-1)?.sequenceNumber ?? this.#toAcknowledge)) return;
    const last = this.#awaiting.at(-1);
    if (last !== undefined && last.seq >= this.#seq) last.sequenceNumber = this.#sequenceNumber;
    else this.#awaiting.push({ seq: this.#seq, sequenceNumber: this.#sequenceNumber });
    this.durable(this.#durableSeq);
  }

  /** A feeder that does not read its acknowledgements gets the latest one when it does. */
  #write(): void {
    if (this.#closed || this.#socket.writableNeedDrain) return;
    if (this.#toAcknowledge > this.#acknowledged) {
      this.#acknowledged = this.#toAcknowledge;
      this.#socket.write(frame(encodeAck(this.#acknowledged)));
    }
    if (this.#ended && !this.awaitsAcknowledgement) this.#socket.end();
  }

  #end(): void {
    this.#ended = true;
    try {
      this.#splitter.end();
    } catch (error) {
      this.#refuse(error);
      return;
    }
    this.#write();
  }

  #frameBegins(): void {
    this.#frameBeganAtMs = performance.now();
    this.#timer ??= setTimeout(() => this.#late(), this.#options.frameTimeoutMs);
  }

  #late(): void {
    this.#timer = null;
    const leftMs = this.#frameBeganAtMs + this.#options.frameTimeoutMs - performance.now();
    if (leftMs > 1) {
      this.#timer = setTimeout(() => this.#late(), leftMs);
      return;
    }
    // Where it was this process that stood still, its rest may be waiting to be read: that comes before setImmediate.
    const frames = this.#frames;
    setImmediate(() => {
      if (this.#frames !== frames || !this.#splitter.midFrame || this.#paused) return;
      this.#fail(`a frame has not ended within ${this.#options.frameTimeoutMs} ms`, 'timeout');
    });
  }

  #refuse(error: unknown): void {
    if (error instanceof FrameError) {
      this.#fail(error.message, error.code === 'FRAME_TOO_LONG' ? 'tooLong' : 'cutShort');
    } else if (error instanceof DecodeError || error instanceof InvalidIdError) {
      this.#fail(`a frame that makes no sense: ${error.message}`, 'invalid');
    } else {
      throw error; // ours, not the feeder's
    }
  }

  #fail(why: string, result: FrameResult | null = null): void {
    if (this.#closed) return;
    if (result !== null) this.#events.refused(result);
    const { id, to, log } = this.#options;
    log.warn({ connection: id, why }, `a connection to the ${to} is closed`);
    this.close();
  }

  #disarm(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
