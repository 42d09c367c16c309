/** Watches this host's status keys for a while, and tells whose writes are not flapd's (etcd/foreign.ts). */
import { setTimeout as delay } from 'node:timers/promises';
import {
  flapdPrefix,
  hostPrefix,
  parseStatusValue,
  type Where,
  workloadPrefix,
} from '../../endpoints/key.js';
import { statusName } from '../../endpoints/status.js';
import type { EtcdConnection } from '../../etcd/connection.js';
import { ForeignWrites } from '../../etcd/foreign.js';
import { type WatchEvent, watchPrefix } from '../../etcd/watch.js';
import { type Finding, fine, found } from '../finding.js';
import type { Member } from './member.js';

export interface Watched {
  /** Of the endpoints' statuses: flapd's own and foreign ones. */
  readonly writes: number;
  readonly foreign: readonly WatchEvent[];
}

export async function watchStatuses(
  connection: EtcdConnection,
  member: Member,
  where: Where,
  watchMs: number,
): Promise<Watched | { readonly failed: string }> {
  const lanes = `${flapdPrefix(where)}lane/`;
  const before = await member.read(lanes, { prefix: true });
  if (before.kind === 'failed') return { failed: messageOf(before.failure) };
  const watching = new Watching(before.value.revision + 1);
  const follow = (prefix: string, take: (events: readonly WatchEvent[]) => void) =>
    watching.follow(connection, prefix, take);
  const ended = Promise.all([
    follow(lanes, (events) => watching.cursors(events)),
    follow(workloadPrefix(where), (events) => watching.statuses(events)),
    follow(hostPrefix(where), (events) => watching.statuses(events)),
  ]);
  try {
    await watching.waitUntil(() => watching.connected === 3, watchDeadlineMs);
    await delay(watchMs, undefined, { signal: watching.signal }).catch(() => undefined);
    // Cursors are quiet where flapd has nothing to write: a list says up to where all of them have been seen.
    const after = await member.read(lanes, { prefix: true });
    if (after.kind === 'failed') return { failed: messageOf(after.failure) };
    const newest = Math.max(0, ...after.value.keys.map(({ modRevision }) => modRevision));
    await watching.waitUntil(
      () => newest <= before.value.revision || watching.cursorRevision >= newest,
      watchDeadlineMs,
    );
    if (watching.failure !== null) return { failed: watching.failure };
    return { writes: watching.writes, foreign: watching.foreignUpTo(after.value.revision) };
  } finally {
    watching.stop();
    await ended;
  }
}

const watchDeadlineMs = 5000;

class Watching {
  connected = 0;
  writes = 0;
  cursorRevision = 0;
  failure: string | null = null;
  readonly #fromRevision: number;
  readonly #judge = new ForeignWrites<WatchEvent>();
  readonly #foreign: WatchEvent[] = [];
  readonly #stop = new AbortController();
  #changed: () => void = () => undefined;

  constructor(fromRevision: number) {
    this.#fromRevision = fromRevision;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  follow(
    connection: EtcdConnection,
    prefix: string,
    take: (events: readonly WatchEvent[]) => void,
  ): Promise<void> {
    return watchPrefix(connection, prefix, {
      fromRevision: this.#fromRevision,
      onEvents: (events) => {
        take(events);
        this.#changed();
      },
      onCompacted: (revision) => this.#fail(`etcd has compacted its history up to revision ${revision}`),
      onConnected: () => {
        this.connected++;
        this.#changed();
      },
      onFailure: (failure) => this.#fail(messageOf(failure)),
      signal: this.#stop.signal,
    });
  }

  cursors(events: readonly WatchEvent[]): void {
    for (const { revision } of events) {
      this.cursorRevision = revision;
      this.#foreign.push(...this.#judge.cursor(revision));
    }
  }

  statuses(events: readonly WatchEvent[]): void {
    this.writes += events.length;
    this.#foreign.push(...this.#judge.statuses(events));
  }

  foreignUpTo(revision: number): readonly WatchEvent[] {
    this.#foreign.push(...this.#judge.settle(revision));
    return this.#foreign;
  }

  /** Until it holds, or the watch has failed; where it does not come to hold in time, that is a failure. */
  async waitUntil(holds: () => boolean, deadlineMs: number): Promise<void> {
    if (holds() || this.failure !== null) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(
        () => this.#fail(`the watch was not served within ${deadlineMs} ms`),
        deadlineMs,
      );
      this.#changed = () => {
        if (!holds() && this.failure === null) return;
        clearTimeout(timer);
        this.#changed = () => undefined;
        resolve();
      };
    });
  }

  stop(): void {
    this.#stop.abort();
  }

  #fail(message: string): void {
    this.failure ??= message;
    this.#stop.abort();
    this.#changed();
  }
}

function messageOf(failure: { readonly kind: string; readonly message?: string }): string {
  return failure.message ?? failure.kind;
}

const shownMax = 5;

/** Pure. */
export function judgeForeignWrites(watched: Watched | { readonly failed: string }, watchMs: number): Finding {
  const seconds = `${watchMs / 1000} s`;
  if ('failed' in watched)
    return found(
      'etcd-unknown',
      `whether others write this host's status keys cannot be told: ${watched.failed}`,
      'see to what else is said of etcd here, and check again',
    );
  const { writes, foreign } = watched;
  if (foreign.length === 0)
    return fine('other writers', `none within ${seconds} (${writes} writes of flapd's own)`);
  const keys = new Map<string, string[]>();
  for (const { key, value } of foreign) keys.set(key, [...(keys.get(key) ?? []), valueText(value)]);
  const shown = [...keys]
    .slice(0, shownMax)
    .map(([key, values]) => `${key} (${values.slice(-3).join(', ')})`);
  const more = keys.size > shownMax ? ` and ${keys.size - shownMax} more keys` : '';
  return found(
    'foreign-writes',
    `${foreign.length} writes within ${seconds} that are not flapd's, to ${shown.join('; ')}${more}`,
    "switch Felix's own reporting off (EndpointReportingEnabled = false in felix.cfg, and restart Felix), and end any " +
      'other reporter that has this host name',
  );
}

function valueText(value: Uint8Array | null): string {
  if (value === null) return 'removed';
  const status = parseStatusValue(value);
  return status === null ? 'unreadable' : statusName(status);
}
