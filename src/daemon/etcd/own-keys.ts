/**
 * Watches this host's own status keys, and the cursors beside them, for what somebody else writes: another reporter,
 * such as Felix's own left switched on, or a person. It is counted, and put right by a resync at once, since a reader
 * may choke on it. It costs about as much as writing does, so a host without a rate limit goes without it: what is
 * foreign is then found by the next resync.
 */
import { flapdPrefix, type Where } from '../../endpoints/key.js';
import { ForeignWrites, type StatusWrite } from '../../etcd/foreign.js';
import { type Reachable, type WatchOptions, watchPrefix } from '../../etcd/watch.js';
import type { Saying } from '../operate/saying.js';
import { statusPrefixes } from './statuses.js';

export interface OwnKeysOptions {
  readonly where: Where;
  readonly reachable: Reachable;
  /** Has the cursors put once more: with theirs, the writes before them can be judged. */
  readonly probe: () => void;
  /** Something was written by somebody else, or may have been. Not oftener than every few seconds. */
  readonly onForeign: () => void;
  readonly saying: Saying;
}

/** Two writers that correct each other must not do so as fast as they can. */
const tellEveryMs = 5000;
/** By then the cursor of a write of our own has come as well. */
const patienceMs = 200;

export class OwnKeys {
  /** Writes of somebody else's so far. */
  foreign = 0;
  readonly #options: OwnKeysOptions;
  readonly #writes = new ForeignWrites();
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #timerAtMs = 0;
  #toldAtMs = Number.NEGATIVE_INFINITY;
  #untold: string[] = [];
  #began = false;

  constructor(options: OwnKeysOptions) {
    this.#options = options;
  }

  /** With the first claim: what came before it was another instance's. */
  start(fromRevision: number): void {
    if (this.#began) return;
    this.#began = true;
    const { where } = this.#options;
    for (const prefix of statusPrefixes(where)) {
      this.#watch(prefix, fromRevision, (events) => this.#foreign(this.#writes.statuses(events)));
    }
    this.#watch(`${flapdPrefix(where)}lane/`, fromRevision, (events) => {
      for (const { revision } of events) this.#foreign(this.#writes.cursor(revision));
    });
  }

  stop(): void {
    this.#stopping.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #watch(prefix: string, firstRevision: number, onEvents: WatchOptions['onEvents']): void {
    const { signal } = this.#stopping;
    const watch = async (): Promise<void> => {
      for (let fromRevision = firstRevision; !signal.aborted; fromRevision = 0) {
        await watchPrefix(this.#options.reachable, prefix, {
          fromRevision,
          onEvents: (events, revision) => {
            onEvents(events, revision);
            if (this.#writes.undecided > 0) this.#arm(patienceMs);
          },
          onCompacted: () => {
            this.#writes.reset();
            this.#options.onForeign();
          },
          signal,
        });
      }
    };
    void watch();
  }

  #foreign(writes: readonly StatusWrite[]): void {
    if (writes.length === 0) return;
    this.foreign += writes.length;
    this.#untold.push(...writes.slice(0, 10).map(({ key }) => key));
    this.#arm(0);
  }

  #arm(afterMs: number): void {
    const atMs = performance.now() + afterMs;
    if (this.#timer !== null && this.#timerAtMs <= atMs) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timerAtMs = atMs;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#settle();
    }, afterMs);
  }

  #settle(): void {
    if (this.#writes.undecided > 0) {
      this.#options.probe();
      this.#arm(tellEveryMs);
    }
    const nowMs = performance.now();
    const waitMs = this.#toldAtMs + tellEveryMs - nowMs;
    if (this.#untold.length === 0) return;
    if (waitMs > 0) {
      this.#arm(waitMs);
      return;
    }
    this.#toldAtMs = nowMs;
    this.#options.saying.once(
      'foreign writes',
      { keys: this.#untold.splice(0).slice(0, 10) },
      "somebody else writes this host's status keys; they are put right. Is Felix's own endpoint reporting still on here? (flapd check)",
    );
    this.#options.onForeign();
  }
}
