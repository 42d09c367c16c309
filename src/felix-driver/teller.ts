/** Tells flapd what is in the ledger, whenever flapd is there to hear it. Nobody waits for it. */
import { FeedClient } from '../sources/felix/client.js';
import { encodeDriverMessage } from '../sources/felix/driver-messages.js';
import { frame } from '../sources/felix/frames.js';
import { encodeStatus } from '../sources/felix/messages.js';
import { encodeToDataplane } from '../sources/felix/to-dataplane.js';
import { Episodes } from '../telemetry/episode.js';
import type { Ledger, Outgoing } from './ledger.js';

export interface TellerOptions {
  readonly socketPath: string;
  readonly ledger: Ledger;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
    error(fields: object, message: string): void;
  };
}

const firstRetryMs = 50;
const lastRetryMs = 1000;

export class Teller {
  readonly #options: TellerOptions;
  readonly #episodes = new Episodes();
  #client: FeedClient | null = null;
  #retryMs = firstRetryMs;
  #timer: NodeJS.Timeout | null = null;
  #telling = false;
  #stopped = false;
  /** To be called when flapd has heard all, or is gone. */
  #onQuiet: (() => void) | null = null;
  #droppedBefore = 0;

  constructor(options: TellerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#connect().catch((error: unknown) => this.#giveUp(error));
  }

  /** There may be something new in the ledger. */
  wake(): void {
    this.#noteDropped();
    const client = this.#client;
    if (client === null || this.#telling) return;
    this.#tell(client).catch((error: unknown) => this.#giveUp(error));
  }

  /** Lets flapd hear the rest, within that time and where it is there. Returns how much it has not acknowledged. */
  async stop(withinMs: number): Promise<number> {
    const { ledger } = this.#options;
    if (this.#client !== null && ledger.untold > 0) {
      await new Promise<void>((resolve) => {
        this.#onQuiet = resolve;
        setTimeout(resolve, withinMs);
      });
    }
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#client?.destroy();
    this.#client = null;
    return ledger.untold;
  }

  async #connect(): Promise<void> {
    const { socketPath, ledger, log } = this.#options;
    let client: FeedClient;
    try {
      client = await FeedClient.connect(socketPath, {
        onAck: (sequenceNumber) => {
          if (this.#client === client) this.#acknowledged(sequenceNumber);
        },
        onClose: (error) => {
          if (this.#client === client) this.#closed(error);
        },
      });
    } catch (error) {
      this.#isAway((error as Error).message);
      return;
    }
    if (this.#stopped) {
      client.destroy();
      return;
    }
    this.#client = client;
    this.#retryMs = firstRetryMs;
    const away = this.#episodes.over('away', performance.now());
    log.info({ socket: socketPath, awayMs: Math.round(away?.lastedMs ?? 0) }, 'flapd listens');
    ledger.connected();
    await this.#tell(client, true);
  }

  /** What is to be told now; in front of it, where the connection has just begun, what was told before. */
  async #tell(client: FeedClient, snapshotFirst = false): Promise<void> {
    this.#telling = true;
    try {
      if (snapshotFirst) {
        client.send(frame(...encodeDriverMessage({ kind: 'snapshotBegin' })));
        for (const one of this.#options.ledger.snapshot()) {
          if (!client.send(encode(one))) await client.drained();
          if (this.#client !== client) return;
        }
        client.send(frame(...encodeDriverMessage({ kind: 'snapshotEnd' })));
      }
      for (;;) {
        const one = this.#options.ledger.next();
        if (one === null) return;
        if (!client.send(encode(one))) await client.drained();
        if (this.#client !== client) return;
      }
    } finally {
      // Where another connection has begun meanwhile, that one tells.
      if (this.#client === client || this.#client === null) this.#telling = false;
    }
  }

  #acknowledged(sequenceNumber: number): void {
    const { ledger } = this.#options;
    ledger.acknowledged(sequenceNumber);
    this.wake();
    if (this.#onQuiet !== null && ledger.untold === 0) this.#onQuiet();
  }

  #closed(error: Error | null): void {
    this.#client = null;
    this.#telling = false;
    this.#onQuiet?.();
    this.#isAway(error?.message ?? 'it has closed the connection');
  }

  #isAway(why: string): void {
    if (this.#stopped) return;
    const { socketPath, log } = this.#options;
    if (this.#episodes.happened('away', performance.now()))
      log.warn(
        { socket: socketPath, why },
        'flapd does not listen: what passes is kept for it until it does',
      );
    const waitMs = this.#retryMs * (0.5 + Math.random() / 2);
    this.#retryMs = Math.min(this.#retryMs * 2, lastRetryMs);
    this.#timer = setTimeout(() => this.start(), waitMs);
    this.#timer.unref(); // no reason to stay
  }

  /** A bug: Felix and its dataplane must not suffer from it. */
  #giveUp(error: unknown): void {
    const what = error instanceof Error ? error.stack : String(error);
    this.#options.log.error({ error: what }, 'a bug, please report it: flapd hears no more of what passes');
    this.#stopped = true;
    this.#client?.destroy();
    this.#client = null;
  }

  #noteDropped(): void {
    const { ledger, log } = this.#options;
    const { dropped } = ledger;
    if (dropped > this.#droppedBefore && this.#episodes.happened('dropped', performance.now()))
      log.warn(
        { waiting: ledger.waiting },
        'too much waits for flapd: of some endpoints only the final state is kept',
      );
    else if (dropped === this.#droppedBefore && ledger.waiting === 0) {
      if (this.#episodes.over('dropped', performance.now()) !== null)
        log.warn({ dropped }, 'flapd has heard all that was kept; so many transitions were not, up to now');
    }
    this.#droppedBefore = dropped;
  }
}

function encode({ id, item, sequenceNumber }: Outgoing): Buffer {
  const rest = { ...(sequenceNumber === null ? {} : { sequenceNumber }), observedAtUs: item.atUs };
  switch (item.kind) {
    case 'defined':
      return frame(...encodeDriverMessage({ kind: 'toDataplane', content: item.content, ...rest }));
    case 'removed': {
      const content = encodeToDataplane({ kind: 'removed', id: id! })!;
      return frame(...encodeDriverMessage({ kind: 'toDataplane', content, ...rest }));
    }
    case 'inSync': {
      const content = encodeToDataplane({ kind: 'inSync' })!;
      return frame(...encodeDriverMessage({ kind: 'toDataplane', content, ...rest }));
    }
    case 'told': {
      const content = encodeStatus(id!, item.status);
      return frame(...encodeDriverMessage({ kind: 'fromDataplane', content, ...rest }));
    }
    case 'heartbeat':
      return frame(...encodeDriverMessage({ kind: 'fromDataplane', content: item.content, ...rest }));
  }
}
