/** The storm's own watch of the status keys, while it runs: tells the tracker what is committed, and when it came. */
import type { EndpointId } from '../../endpoints/id.js';
import { parseStatusValue, statusKey, type Where, workloadPrefix } from '../../endpoints/key.js';
import { Status } from '../../endpoints/status.js';
import type { EtcdConnection } from '../../etcd/connection.js';
import { watchPrefix } from '../../etcd/watch.js';
import type { Tracker } from './tracker.js';

export class ObserverError extends Error {
  readonly code = 'STORM_WATCH';
}

export class Observer {
  readonly #connection: EtcdConnection;
  readonly #prefix: string;
  readonly #endpoints: ReadonlyMap<string, number>;
  readonly #stop = new AbortController();
  #watching: Promise<void> = Promise.resolve();

  constructor(connection: EtcdConnection, where: Where, ids: readonly EndpointId[]) {
    this.#connection = connection;
    this.#prefix = workloadPrefix(where);
    this.#endpoints = new Map(ids.map((id, number) => [statusKey(id, where), number]));
  }

  /** Resolves when the watch is there. `onEnd`: it cannot go on. */
  start(fromRevision: number, tracker: Tracker, onEnd: (error: Error) => void): Promise<void> {
    return new Promise((resolve) => {
      this.#watching = watchPrefix(this.#connection, this.#prefix, {
        fromRevision,
        signal: this.#stop.signal,
        onConnected: resolve,
        onEvents: (events) => {
          const nowMs = performance.now();
          for (const { key, value } of events) {
            const endpoint = this.#endpoints.get(key);
            const status = value === null ? Status.removed : parseStatusValue(value);
            // Any other key or value is the verifier's to find.
            if (endpoint !== undefined && status !== null) tracker.seen(endpoint, status, nowMs);
          }
        },
        onCompacted: (revision) =>
          onEnd(
            new ObserverError(`etcd has compacted its history up to revision ${revision} during the storm`),
          ),
      });
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }
}
