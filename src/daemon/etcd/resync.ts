/** Compares etcd's keys with the known states, now and then and when there is a reason to (docs/design.md, section 10). */
import type { Etcd3 } from 'etcd3';
import { idKey } from '../../endpoints/id.js';
import type { EndpointRegistry } from '../../endpoints/registry.js';
import { jitteredMs } from '../../reporter/backoff.js';
import type { Driver } from '../driver.js';
import { listStatuses, type StatusListing } from './statuses.js';

export type ResyncResult = 'clean' | 'corrected' | 'stale' | 'failed';

export interface ResyncOptions {
  readonly driver: Driver;
  readonly registry: EndpointRegistry;
  readonly client: () => Etcd3;
  /** Of the moment. */
  readonly intervalMs: () => number;
  readonly inSync: () => boolean;
  /** By idKey(): endpoints that nothing can be said about. */
  readonly undecided: () => ReadonlySet<string>;
  readonly onResult: (
    result: ResyncResult,
    corrections: { put: number; repaired: number; deleted: number },
  ) => void;
  readonly onError: (error: unknown) => void;
}

const none = { put: 0, repaired: 0, deleted: 0 };
/** A list that failed, or came too old, is asked for again so soon. */
const againMs = 5000;

export class Resync {
  readonly #options: ResyncOptions;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #stopped = false;

  constructor(options: ResyncOptions) {
    this.#options = options;
  }

  /** Begins a run at once, or right after the one that is under way: that one may have read too early. */
  now(): void {
    if (this.#running !== null) {
      void this.#running.then(() => this.now());
      return;
    }
    this.#arm(0);
  }

  stop(): void {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #arm(afterMs: number): void {
    if (this.#stopped) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#running = this.#run().finally(() => {
        this.#running = null;
      });
    }, afterMs);
  }

  async #run(): Promise<void> {
    const { driver, registry, client, intervalMs, inSync, onResult, onError } = this.#options;
    // A fleet must not list as one.
    const nextMs = intervalMs() * (0.9 + 0.2 * Math.random());
    const soonMs = Math.min(jitteredMs(againMs, Math.random()), nextMs);
    try {
      driver.beginResync();
      const { revision, statuses } = await listStatuses(client(), registry);
      const corrections = driver.resync(this.#decided(statuses), revision, inSync());
      if (corrections === null) {
        onResult('stale', none);
        this.#arm(soonMs);
        return;
      }
      const corrected = corrections.put + corrections.repaired + corrections.deleted > 0;
      onResult(corrected ? 'corrected' : 'clean', corrections);
      this.#arm(nextMs);
    } catch (error) {
      onResult('failed', none);
      onError(error);
      this.#arm(soonMs);
    }
  }

  #decided(statuses: StatusListing['statuses']): StatusListing['statuses'] {
    const { registry, undecided } = this.#options;
    const left = undecided();
    if (left.size === 0) return statuses;
    return new Map([...statuses].filter(([endpoint]) => !left.has(idKey(registry.id(endpoint)))));
  }
}
