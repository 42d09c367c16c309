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

export interface FollowOptions {
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
  readonly signal: AbortSignal;
}

/** From half a second to 10 s: after a restore all hosts of an etcd list again, and must not do so at once. */
const backoff = { firstMs: 1000, maxMs: 10_000 };

export const pauseFor: Pause = async (ms, signal) => {
  await delay(ms, undefined, { signal }).catch(() => undefined); // an abort is the caller's to see
};

/** Ends when the signal says so. Rejects only with what a callback throws. */
export async function follow(options: FollowOptions): Promise<void> {
  const { prefix, watch, pause, random, signal, onListed, onEvents, onFailure, onWatching, onGap } = options;
  let failures = 0;
  while (!signal.aborted) {
    const listing = await tryList(options);
    if (signal.aborted) return;
    if (listing === null) {
      failures++;
    } else {
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
      // Also after a watch that ended: one that ends again and again must not list without a pause.
      failures = 1;
    }
    if (!signal.aborted) await pause(backoffMs(failures, backoff, random()), signal);
  }
}

/** Null: it failed, or is not waited for any more. */
async function tryList({ prefix, list, signal, onFailure }: FollowOptions): Promise<Listing | null> {
  let giveUp = (): void => undefined;
  const stopped = new Promise<null>((resolve) => {
    giveUp = () => resolve(null);
  });
  signal.addEventListener('abort', giveUp, { once: true });
  try {
    return await Promise.race([list(prefix), stopped]);
  } catch (error) {
    onFailure(error instanceof Error ? error.message : String(error));
    return null;
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}
