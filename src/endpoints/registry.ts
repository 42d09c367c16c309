/** Which number stands for which status key: numbers are dense, so that they index the typed arrays of the core. */
import type { EndpointId, EndpointIndex, EndpointKind, StatusKey } from './id.js';
import { hostPrefix, parseStatusKey, statusKey, type Where } from './key.js';

export class EndpointRegistry {
  readonly where: Where;
  readonly #indexes = new Map<StatusKey, EndpointIndex>();
  readonly #keys: StatusKey[] = [];
  /** Numbers whose endpoints are forgotten. */
  readonly #free: EndpointIndex[] = [];
  readonly #onNew: (endpoint: EndpointIndex, key: StatusKey) => void;
  readonly #hostPrefix: string;

  /** `onNew` is called for each number given out, before it is returned. */
  constructor(where: Where, onNew: (endpoint: EndpointIndex, key: StatusKey) => void) {
    this.where = where;
    this.#hostPrefix = hostPrefix(where);
    this.#onNew = onNew;
  }

  get size(): number {
    return this.#indexes.size;
  }

  /** Throws an InvalidIdError for an id that no key can hold. */
  intern(id: EndpointId): EndpointIndex {
    return this.#add(statusKey(id, this.where));
  }

  /** The number of a key found in etcd; null where it is no status key of this host, or not in the form that we write. */
  internKey(key: string): EndpointIndex | null {
    // Bytes that are no UTF-8 come as replacement characters: that is not the key itself.
    if (key.includes('\ufffd')) return null;
    const id = parseStatusKey(key, this.where);
    if (id === null || statusKey(id, this.where) !== key) return null;
    return this.#add(key as StatusKey);
  }

  /** From the journal: this number stood for this key. Ignored (false) where the key belongs to another host or region. */
  restore(endpoint: EndpointIndex, key: string): boolean {
    if (parseStatusKey(key, this.where) === null) return false;
    this.#keys[endpoint] = key as StatusKey;
    this.#indexes.set(key as StatusKey, endpoint);
    return true;
  }

  /** The endpoint is gone for good: its number will be given to another one. Nobody may still mean it by the number. */
  forget(endpoint: EndpointIndex): void {
    this.#indexes.delete(this.#keys[endpoint]!);
    delete this.#keys[endpoint];
    this.#free.push(endpoint);
  }

  find(id: EndpointId): EndpointIndex | undefined {
    return this.#indexes.get(statusKey(id, this.where));
  }

  has(endpoint: EndpointIndex): boolean {
    return this.#keys[endpoint] !== undefined;
  }

  key(endpoint: EndpointIndex): StatusKey {
    return this.#keys[endpoint]!;
  }

  /** Made of its key each time: an object and its strings for each endpoint would be most of what the heap holds. */
  id(endpoint: EndpointIndex): EndpointId {
    return parseStatusKey(this.key(endpoint), this.where)!;
  }

  kind(endpoint: EndpointIndex): EndpointKind {
    return this.key(endpoint).startsWith(this.#hostPrefix) ? 'host' : 'workload';
  }

  *indexes(): IterableIterator<EndpointIndex> {
    yield* this.#indexes.values();
  }

  #add(key: StatusKey): EndpointIndex {
    const known = this.#indexes.get(key);
    if (known !== undefined) return known;
    const endpoint = this.#free.pop() ?? (this.#keys.length as EndpointIndex);
    this.#keys[endpoint] = key;
    this.#indexes.set(key, endpoint);
    this.#onNew(endpoint, key);
    return endpoint;
  }
}
