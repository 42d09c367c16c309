/**
 * What the resources below one prefix define, by their keys, and what changes of that with each news or list. Pure.
 *
 * A resource that cannot be read keeps the definition that it had: somebody's slip must not take a VM's port away. It
 * goes when the resource is deleted, or can be read again and says so.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Definition } from '../../endpoints/derive.js';
import type { EndpointId } from '../../endpoints/id.js';
import type { Reading } from './resource.js';

export interface CollectionEvents {
  /** An endpoint of this host is there, or is defined otherwise than before. */
  defined(definition: Definition, atUs: number): void;
  /** It is there no more, or is another host's, or not reported. Only of one that was defined. */
  undefined(id: EndpointId, atUs: number): void;
  /** Once until it is repaired, however often it is written meanwhile. */
  damaged(key: string, why: string): void;
  /** It can be read again, or was deleted. */
  repaired(key: string): void;
}

export interface Resource {
  readonly key: string;
  readonly value: Uint8Array;
}

export class Collection {
  /** Revisions that could not be read, so far. */
  damages = 0;
  readonly #events: CollectionEvents;
  readonly #read: (key: string, value: Uint8Array) => Reading;
  readonly #definitions = new Map<string, Definition>();
  /** By key; null: its name is no endpoint's. */
  readonly #unreadable = new Map<string, EndpointId | null>();

  constructor(read: (key: string, value: Uint8Array) => Reading, events: CollectionEvents) {
    this.#read = read;
    this.#events = events;
  }

  /** How many endpoints are defined. */
  get size(): number {
    return this.#definitions.size;
  }

  /** The endpoints of resources that cannot be read at present, whether they are this host's or not. */
  *unreadable(): IterableIterator<EndpointId> {
    for (const id of this.#unreadable.values()) if (id !== null) yield id;
  }

  /** How many resources cannot be read at present. */
  get unreadableCount(): number {
    return this.#unreadable.size;
  }

  put({ key, value }: Resource, atUs: number): void {
    const reading = this.#read(key, value);
    if (reading.kind === 'damaged') {
      this.#damaged(key, reading.why, reading.id);
      return;
    }
    this.#repaired(key);
    if (reading.kind === 'unreported') this.#undefine(key, atUs);
    else this.#define(key, reading.definition, atUs);
  }

  delete(key: string, atUs: number): void {
    this.#repaired(key);
    this.#undefine(key, atUs);
  }

  /** These are all that there are. What is gone is told first: what is new may have its interface. */
  replace(resources: readonly Resource[], atUs: number): void {
    const there = new Set(resources.map(({ key }) => key));
    for (const key of [...this.#definitions.keys(), ...this.#unreadable.keys()]) {
      if (!there.has(key)) this.delete(key, atUs);
    }
    for (const resource of resources) this.put(resource, atUs);
  }

  #define(key: string, definition: Definition, atUs: number): void {
    if (isDeepStrictEqual(this.#definitions.get(key), definition)) return;
    this.#definitions.set(key, definition);
    this.#events.defined(definition, atUs);
  }

  #undefine(key: string, atUs: number): void {
    const definition = this.#definitions.get(key);
    if (definition === undefined) return;
    this.#definitions.delete(key);
    this.#events.undefined(definition.id, atUs);
  }

  #damaged(key: string, why: string, id: EndpointId | null): void {
    this.damages++;
    if (this.#unreadable.has(key)) return;
    this.#unreadable.set(key, id);
    this.#events.damaged(key, why);
  }

  #repaired(key: string): void {
    if (this.#unreadable.delete(key)) this.#events.repaired(key);
  }
}
