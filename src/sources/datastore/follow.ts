/**
 * Keeps up with a prefix for ever: lists it, then watches it from the list's revision + 1, so that nothing falls between
 * the two. A watch that cannot go on without a gap (its history is compacted away, or etcd was set back) begins again
 * with a list, whose reader finds out what changed.
 *
 * List and watch are given: sources know nothing of etcd's client. The types are the parts of src/etcd/list.ts and
 * src/etcd/watch.ts that are needed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../reporter/backoff.js';

export interface Listing {
  /** etcd's when it was read. */
  readonly revision: number;
  readonly keys: readonly { readonly key: string; readonly value: Uint8Array }[];
}

export interface Event {
  readonly key: string;
  /** Null: the key was deleted. */
  readonly value: Uint8Array | null;
}

export interface WatchOptions {
  readonly fromRevision: number;
  readonly onEvents: (events: readonly Event[]) => void;
  /** The watch has ended, since it could not go on without a gap. */
  readonly onCompacted: (revision: number) => void;
  readonly onConnected: () => void;
  /** Not watching at present; it goes on trying. */
  readonly onFailure: (failure: { readonly message: string }) => void;
  readonly signal: AbortSignal;
}

/** All keys with a prefix, at one revision. Rejects where etcd does not give them. */
export type List = (prefix: string) => Promise<Listing>;
/** Ends when told to by the signal, or after onCompacted. Rejects only with what a callback throws. */
export type Watch = (prefix: string, options: WatchOptions) => Promise<void>;
/** Ends early, and without an error, when the signal says so. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>;

export interface FollowerOptions {
  readonly prefix: string;
  readonly list: List;
  readonly watch: Watch;
  readonly pause: Pause;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly onListed: (listing: Listing) => void;
  readonly onEvents: (events: readonly Event[]) => void;
  /** Neither listed nor watched at present; comes again with each try. */
  readonly onFailure: (why: string) => void;
  /** Watched, from now on. */
  readonly onWatching: () => void;
  /** What was watched must be listed again. */
  readonly onGap: (revision: number) => void;
}

/** From half a second to 10 s: after a restore all hosts of an etcd list again, and must not do so at once. */
const backoff = { firstMs: 1000, maxMs: 10_000 };

export const pauseFor: Pause = async (ms, signal) => {
  await delay(ms, undefined, { signal }).catch(() => undefined); // an abort is the caller's to see
};

export class Follower {
  readonly #options: FollowerOptions;
  /** Ends what is under way: the list, the watch or the pause. */
  #round = new AbortController();
  #stopped = false;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  /** Ends when stopped. Rejects only with what a callback throws. */
  async run(): Promise<void> {
    const { pause, random } = this.#options;
    let failures = 0;
    while (!this.#stopped) {
      this.#round = new AbortController();
      const { signal } = this.#round;
      const listing = await this.#list(signal);
      if (listing !== null) await this.#watch(listing, signal);
      // Also after a watch that ended: where one ends again and again, lists must not follow without a pause.
      failures = listing === null ? failures + 1 : 1;
      if (!signal.aborted) await pause(backoffMs(failures, backoff, random()), signal);
    }
  }

  /** Lists again, at once. */
  again(): void {
    this.#round.abort();
  }

  stop(): void {
    this.#stopped = true;
    this.#round.abort();
  }

  /** Null: it failed, or is not waited for any more. */
  async #list(signal: AbortSignal): Promise<Listing | null> {
    const { prefix, list, onFailure } = this.#options;
    let giveUp = (): void => undefined;
    const given = new Promise<null>((resolve) => {
      giveUp = () => resolve(null);
    });
    signal.addEventListener('abort', giveUp, { once: true });
    let listing: Listing | null;
    try {
      listing = await Promise.race([list(prefix), given]);
    } catch (error) {
      onFailure(error instanceof Error ? error.message : String(error));
      return null;
    }
    return signal.aborted ? null : listing;
  }

  async #watch(listing: Listing, signal: AbortSignal): Promise<void> {
    const { prefix, watch, onListed, onEvents, onFailure, onWatching, onGap } = this.#options;
    onListed(listing);
    await watch(prefix, {
      fromRevision: listing.revision + 1,
      onEvents: (events) => {
        if (!signal.aborted) onEvents(events);
      },
      onCompacted: onGap,
      onConnected: onWatching,
      onFailure: ({ message }) => onFailure(message),
      signal,
    });
  }
}
