/**
 * Calico's resources in etcd as definitions of this host's endpoints (docs/design.md, section 5.3):
 *
 *     list, then watch (follow.ts) ─► what a resource says (resource.ts) ─► what changes by it (collection.ts) ─► events
 *
 * once for the workload endpoints, whose narrow prefix holds little but this host's, and once for the host endpoints.
 *
 * Live migration needs nothing of its own: Neutron's driver writes the destination's resource, whose name begins with
 * the destination's host, and deletes the source's. So does renaming a host: the new name's are other resources.
 */
import type { EndpointId } from '../../endpoints/id.js';
import type { Where } from '../../endpoints/key.js';
import type { EndpointSource } from '../source.js';
import { Collection, type CollectionEvents } from './collection.js';
import { type Event, Follower, type List, type Listing, type Pause, pauseFor, type Watch } from './follow.js';
import { hostResources, readResource, workloadResources } from './resource.js';

/** None may throw. */
export interface DatastoreEvents extends CollectionEvents {
  /** Everything that was there has been told: once. */
  inSync(): void;
  /** `what` cannot be listed or watched, and is tried again. Comes with each try: worth a log line once an episode. */
  failing(what: Followed, why: string): void;
  /** `what` has been listed and is watched, perhaps as ever. */
  following(what: Followed): void;
}

export type Followed = 'workload endpoints' | 'host endpoints';

export interface DatastoreOptions {
  readonly where: Where;
  readonly list: List;
  readonly watch: Watch;
  readonly events: DatastoreEvents;
  readonly nowUs: () => number;
  /** Uniform in [0, 1): for the jitter of what is tried again. */
  readonly random?: () => number;
  /** Waiting, as a test has it. */
  readonly pause?: Pause;
  readonly log: { info(fields: object, message: string): void };
}

export interface DatastoreFigures {
  readonly lists: number;
  /** Tries to list or to watch that failed. */
  readonly failures: number;
  /** Gaps in a watch, each of which made a list necessary. */
  readonly gaps: number;
  /** Changes of resources seen by watching, also those of other hosts. */
  readonly changes: number;
  /** Revisions of resources that could not be read. */
  readonly damages: number;
  /** Resources that cannot be read at present. */
  readonly unreadable: number;
  /** Endpoints of this host, at present. */
  readonly definitions: number;
}

interface Part {
  readonly collection: Collection;
  readonly follower: Follower;
  listed: boolean;
}

export class DatastoreSource implements EndpointSource {
  readonly name = 'datastore';
  readonly #options: DatastoreOptions;
  readonly #parts: readonly Part[];
  readonly #counts = { lists: 0, failures: 0, gaps: 0, changes: 0 };
  #following: Promise<unknown> = Promise.resolve();

  constructor(options: DatastoreOptions) {
    this.#options = options;
    this.#parts = [
      this.#part('workload endpoints', workloadResources(options.where)),
      this.#part('host endpoints', hostResources),
    ];
  }

  /** Stays so while etcd cannot be reached: what is defined stays so until it is known to be otherwise. */
  get inSync(): boolean {
    return this.#parts.every(({ listed }) => listed);
  }

  get figures(): DatastoreFigures {
    const sum = (of: (collection: Collection) => number) =>
      this.#parts.reduce((total, { collection }) => total + of(collection), 0);
    return {
      ...this.#counts,
      damages: sum((collection) => collection.damages),
      unreadable: sum((collection) => collection.unreadableCount),
      definitions: sum((collection) => collection.size),
    };
  }

  /**
   * Endpoints whose resources are there and cannot be read. After a restart these have no definition, so their status
   * keys look left over; they must not be taken for that. Some may be other hosts'.
   */
  *unreadable(): IterableIterator<EndpointId> {
    for (const { collection } of this.#parts) yield* collection.unreadable();
  }

  /** Begins; resolves at once, since etcd may not be there for long. What a callback throws ends the process. */
  start(): Promise<void> {
    this.#following = Promise.all(this.#parts.map(({ follower }) => follower.run()));
    return Promise.resolve();
  }

  /**
   * Lists everything once more, for whoever knows that etcd was set back: a watch notices that by itself only where it
   * connects again before etcd has come as far as it had been.
   */
  listAgain(): void {
    for (const { follower } of this.#parts) follower.again();
  }

  /** Nothing is told any more once it is called. */
  async stop(): Promise<void> {
    for (const { follower } of this.#parts) follower.stop();
    await this.#following;
  }

  #part(what: Followed, prefix: string): Part {
    const { where, list, watch, events, log, random = Math.random, pause = pauseFor } = this.#options;
    const follower = new Follower({
      prefix,
      list,
      watch,
      pause,
      random,
      onListed: (listing) => this.#listed(part, listing),
      onEvents: (seen) => this.#changed(part, seen),
      onFailure: (why) => {
        this.#counts.failures++;
        events.failing(what, why);
      },
      onWatching: () => events.following(what),
      onGap: (revision) => {
        this.#counts.gaps++;
        log.info({ what, revision }, 'the watch of Calico resources has a gap: they are listed again');
      },
    });
    const collection = new Collection((key, value) => readResource(key, value, where), events);
    const part: Part = { collection, follower, listed: false };
    return part;
  }

  #listed(part: Part, { keys }: Listing): void {
    this.#counts.lists++;
    part.collection.replace(keys, this.#options.nowUs());
    if (part.listed) return;
    part.listed = true;
    if (this.inSync) this.#options.events.inSync();
  }

  #changed({ collection }: Part, changes: readonly Event[]): void {
    const atUs = this.#options.nowUs();
    this.#counts.changes += changes.length;
    for (const { key, value } of changes) {
      if (value === null) collection.delete(key, atUs);
      else collection.put({ key, value }, atUs);
    }
  }
}
