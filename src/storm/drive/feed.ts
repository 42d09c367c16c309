/**
 * A storm through the feed socket, as a dataplane that speaks Felix's protocol would make it.
 *
 * Where flapd may be killed meanwhile (`windowed`), an endpoint is told its next status only when flapd has
 * acknowledged the one before. After a reconnect every endpoint is told its newest status once more: what was not
 * acknowledged has either been accepted (then flapd ignores it, since the endpoint has that status) or not (then it is
 * accepted now). Both ways it is accepted once. With two unacknowledged, `up, down` would come twice.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { EndpointId } from '../../endpoints/id.js';
import { Status } from '../../endpoints/status.js';
import { FeedClient } from '../../sources/felix/client.js';
import { frame } from '../../sources/felix/frames.js';
import { encodeSequenceNumber, encodeStatus } from '../../sources/felix/messages.js';
import type { Plan } from '../plan/plan.js';
import type { Driver, DriverEvents } from './driver.js';
import type { Pace } from './pace.js';

export interface FeedDriverOptions {
  readonly socketPath: string;
  readonly endpoints: number;
  readonly windowed: boolean;
  /** How long flapd may take to listen, and to acknowledge what it was sent last. */
  readonly patienceMs: number;
}

export class FeedDriverError extends Error {
  readonly code = 'STORM_FEED';
}

const none = -1;
const reconnectMs = 20;

export class FeedDriver implements Driver {
  readonly ids: readonly EndpointId[];
  readonly #options: FeedDriverOptions;
  readonly #encoded: Uint8Array[][];
  #client: FeedClient | null = null;
  #connecting: Promise<void> | null = null;
  #connections = 0;
  #sequenceNumber = 0;
  /** Sent on this connection and not acknowledged, oldest first. */
  #inflight: { sequenceNumber: number; step: number }[] = [];
  #inflightFrom = 0;
  #run: Run | null = null;
  #taken = 0;

  constructor(options: FeedDriverOptions) {
    this.#options = options;
    this.ids = Array.from({ length: options.endpoints }, (_, i) => stormEndpoint(i));
    this.#encoded = this.ids.map((id) =>
      [Status.removed, Status.up, Status.down].map((status) => encodeStatus(id, status)),
    );
  }

  get connections(): number {
    return this.#connections;
  }

  get taken(): number {
    return this.#taken;
  }

  async prepare(): Promise<void> {}

  /** Tries until flapd listens. */
  async connect(signal: AbortSignal): Promise<void> {
    const deadlineMs = performance.now() + this.#options.patienceMs;
    for (;;) {
      signal.throwIfAborted();
      try {
        const client = await FeedClient.connect(this.#options.socketPath, {
          onAck: (sequenceNumber) => {
            if (this.#client === client) this.#acknowledged(sequenceNumber);
          },
          onClose: () => {
            if (this.#client === client) this.#closed(signal);
          },
        });
        this.#client = client;
        this.#connections++;
        return;
      } catch (cause) {
        if (performance.now() > deadlineMs) {
          const why = cause instanceof Error ? cause.message : String(cause);
          throw new FeedDriverError(`flapd does not listen on ${this.#options.socketPath}: ${why}`, {
            cause,
          });
        }
        await sleep(reconnectMs);
      }
    }
  }

  async run(plan: Plan, pace: Pace, events: DriverEvents, signal: AbortSignal): Promise<void> {
    const run = new Run(plan, events, this.#options.endpoints);
    this.#run = run;
    const giveUp = (): void => run.fail(signal.reason);
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      await Promise.race([this.#tellAll(run, pace, signal), run.failed]);
      await run.finished;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  crossCheck(): null {
    return null;
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    client?.destroy();
  }

  async #tellAll(run: Run, pace: Pace, signal: AbortSignal): Promise<void> {
    const { plan } = run;
    for (let step = 0; step < plan.length; step++) {
      const wait = pace.wait(step, signal);
      if (wait !== undefined) await wait;
      const endpoint = plan.endpoints[step]!;
      if (this.#options.windowed && run.unacknowledged[endpoint] !== none) {
        run.waiting[endpoint]!.push(step);
        continue;
      }
      if (!this.#tell(run, step)) await this.#client?.drained();
    }
  }

  /** False: the socket wants no more for now. */
  #tell(run: Run, step: number): boolean {
    const endpoint = run.plan.endpoints[step]!;
    run.unacknowledged[endpoint] = step;
    run.newest[endpoint] = step;
    run.events.told(step, performance.now());
    return this.#send(run, step);
  }

  /** Nothing is sent while there is no connection: reconnecting tells every endpoint's newest status. */
  #send(run: Run, step: number): boolean {
    if (this.#client === null) return true;
    const sequenceNumber = ++this.#sequenceNumber;
    this.#inflight.push({ sequenceNumber, step });
    const encoded = this.#encoded[run.plan.endpoints[step]!]![run.plan.statuses[step]!]!;
    return this.#client.send(frame(encoded, encodeSequenceNumber(sequenceNumber)));
  }

  #acknowledged(sequenceNumber: number): void {
    const run = this.#run;
    if (run === null) return;
    while (this.#inflightFrom < this.#inflight.length) {
      const { sequenceNumber: sent, step } = this.#inflight[this.#inflightFrom]!;
      if (sent > sequenceNumber) break;
      this.#inflightFrom++;
      const endpoint = run.plan.endpoints[step]!;
      if (run.acknowledged[step] === 0) {
        run.acknowledged[step] = 1;
        this.#taken++;
      }
      if (run.unacknowledged[endpoint] !== step) continue;
      run.unacknowledged[endpoint] = none;
      const next = run.waiting[endpoint]!.shift();
      if (next !== undefined) this.#tell(run, next);
    }
    if (this.#inflightFrom > 4096) {
      this.#inflight = this.#inflight.slice(this.#inflightFrom);
      this.#inflightFrom = 0;
    }
    if (this.#taken === run.plan.length) run.finish();
  }

  #closed(signal: AbortSignal): void {
    this.#client = null;
    this.#inflight = [];
    this.#inflightFrom = 0;
    const run = this.#run;
    if (run === null || signal.aborted) return;
    if (!this.#options.windowed) {
      run.fail(new FeedDriverError('flapd closed the feed connection in the middle of the storm'));
      return;
    }
    if (this.#connecting !== null) return;
    this.#connecting = this.connect(signal)
      .then(() => {
        for (const step of run.newest) {
          const acknowledgedRemoval =
            step !== none && run.acknowledged[step] === 1 && run.plan.statuses[step] === Status.removed;
          if (step !== none && !acknowledgedRemoval) this.#send(run, step);
        }
      })
      .catch((error: unknown) => run.fail(error))
      .finally(() => {
        this.#connecting = null;
      });
  }
}

/** Where the carrying out of a plan stands. */
class Run {
  readonly plan: Plan;
  readonly events: DriverEvents;
  /** By step. */
  readonly acknowledged: Uint8Array;
  /** By endpoint: the step that was told and is not acknowledged. */
  readonly unacknowledged: Int32Array;
  /** By endpoint: the step that was told last. */
  readonly newest: Int32Array;
  /** By endpoint: steps that wait for the one before to be acknowledged. */
  readonly waiting: number[][];
  readonly finished: Promise<void>;
  /** Never resolves; rejects as soon as the run cannot end well. */
  readonly failed: Promise<never>;
  finish: () => void = () => undefined;
  fail: (error: unknown) => void = () => undefined;

  constructor(plan: Plan, events: DriverEvents, endpoints: number) {
    this.plan = plan;
    this.events = events;
    this.acknowledged = new Uint8Array(plan.length);
    this.unacknowledged = new Int32Array(endpoints).fill(none);
    this.newest = new Int32Array(endpoints).fill(none);
    this.waiting = Array.from({ length: endpoints }, () => []);
    this.failed = new Promise((_, reject) => {
      this.fail = reject;
    });
    this.finished = Promise.race([
      new Promise<void>((resolve) => {
        this.finish = resolve;
      }),
      this.failed,
    ]);
    this.failed.catch(() => undefined); // whoever awaits `finished` hears of it
    this.finished.catch(() => undefined); // a run that fails while it is still telling is reported by that
  }
}

/** As OpenStack's ports are named, so that keys have their usual length and their escaped slash. */
function stormEndpoint(number: number): EndpointId {
  const id = number.toString(16).padStart(12, '0');
  return {
    kind: 'workload',
    orchestrator: 'openstack',
    workload: `openstack/5709f1ad-0000-4000-8000-${id}`,
    endpoint: `f1a9d000-0000-4000-9000-${id}`,
  };
}
