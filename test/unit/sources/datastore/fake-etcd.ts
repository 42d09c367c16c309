/** An etcd that a test moves step by step: what it lists and watches is asked for, and answered when the test says so. */
import type { DatastoreEvents } from '../../../../src/sources/datastore/datastore.js';
import type { List, Listing, Pause, Watch, WatchOptions } from '../../../../src/sources/datastore/follow.js';
import type { Resource } from '../../../support/calico.js';

interface Asked {
  readonly prefix: string;
  readonly answer: (listing: Listing) => void;
  readonly fail: (error: unknown) => void;
}

interface Watched extends WatchOptions {
  readonly prefix: string;
  readonly end: () => void;
}

/** All that was promised so far has been kept, and what follows from it has run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

export class FakeEtcd {
  /** What was asked for and not answered yet. */
  readonly lists: Asked[] = [];
  /** What is watched at present. */
  readonly watches: Watched[] = [];
  /** The pauses that are waited for at present, by their length. */
  readonly pauses: { readonly ms: number; readonly end: () => void }[] = [];

  readonly list: List = (prefix) =>
    new Promise((answer, fail) => {
      this.lists.push({ prefix, answer, fail });
    });

  readonly watch: Watch = (prefix, options) =>
    new Promise((end) => {
      const watched = { ...options, prefix, end };
      this.watches.push(watched);
      options.signal.addEventListener('abort', () => end(), { once: true });
    });

  readonly pause: Pause = (ms, signal) =>
    new Promise((end) => {
      if (signal.aborted) end();
      this.pauses.push({ ms, end });
      signal.addEventListener('abort', () => end(), { once: true });
    });

  /** Answers what was asked for below the prefix that ends with this. */
  async answer(part: string, revision: number, resources: readonly Resource[]): Promise<void> {
    const keys = resources.map(({ key, value }) => ({ key, value: Buffer.from(value) }));
    this.#take(part).answer({ revision, keys });
    await settled();
  }

  async refuse(part: string, error: unknown): Promise<void> {
    this.#take(part).fail(error);
    await settled();
  }

  /** The watch of the prefix in which this is. */
  watchOf(part: string): Watched {
    const found = this.watches.findLast(({ prefix }) => prefix.includes(part));
    if (found === undefined) throw new Error(`nothing in ${part} is watched`);
    return found;
  }

  /** Tells its watch of changes; a value null is a deletion. */
  async tell(part: string, ...changes: { key: string; value: string | null }[]): Promise<void> {
    const events = changes.map(({ key, value }) => ({
      key,
      value: value === null ? null : Buffer.from(value),
    }));
    this.watchOf(part).onEvents(events);
    await settled();
  }

  /** Its watch ends, since history up to this revision is gone. */
  async compact(part: string, revision: number): Promise<void> {
    const watched = this.watchOf(part);
    watched.onCompacted(revision);
    watched.end();
    await settled();
  }

  /** Whoever waits, waits no more. */
  async endPauses(): Promise<void> {
    for (const { end } of this.pauses.splice(0)) end();
    await settled();
  }

  #take(part: string): Asked {
    const at = this.lists.findIndex(({ prefix }) => prefix.includes(part));
    if (at < 0) throw new Error(`nothing in ${part} is asked for`);
    return this.lists.splice(at, 1)[0]!;
  }
}

/** What was told, one line each. */
export class Told implements DatastoreEvents {
  lines: string[] = [];
  readonly times: number[] = [];

  readonly defined: DatastoreEvents['defined'] = (definition, atUs) => {
    const { id, interfaceName } = definition;
    const more = definition.kind === 'host' ? ` [${definition.expectedIps.join(' ')}]` : '';
    this.lines.push(`defined ${id.endpoint} ${interfaceName}${more}`);
    this.times.push(atUs);
  };
  readonly undefined: DatastoreEvents['undefined'] = (id, atUs) => {
    this.lines.push(`undefined ${id.endpoint}`);
    this.times.push(atUs);
  };
  readonly damaged: DatastoreEvents['damaged'] = (key, why) => {
    this.lines.push(`damaged ${key.split('/').at(-1)}: ${why.split(':')[0]}`);
  };
  readonly repaired: DatastoreEvents['repaired'] = (key) => {
    this.lines.push(`repaired ${key.split('/').at(-1)}`);
  };
  readonly inSync: DatastoreEvents['inSync'] = () => {
    this.lines.push('in sync');
  };
  readonly failing: DatastoreEvents['failing'] = (what, why) => {
    this.lines.push(`${what} failing: ${why}`);
  };
  readonly following: DatastoreEvents['following'] = (what) => {
    this.lines.push(`following the ${what}`);
  };

  /** What was told since it was last asked. */
  take(): string[] {
    const lines = this.lines;
    this.lines = [];
    return lines;
  }
}
