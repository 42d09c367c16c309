/** Which number stands for which status key: numbers are dense, so that they index the typed arrays of the core. */
import type { EndpointId, EndpointIndex, EndpointKind, StatusKey } from './id.js';
import { parseStatusKey, statusKey, type Where } from './key.js';

export class EndpointRegistry {
  readonly where: Where;
  readonly #indexes = new Map<StatusKey, EndpointIndex>();
  readonly #keys: StatusKey[] = [];
  readonly #ids: EndpointId[] = [];
  /** Numbers whose endpoints are forgotten. */
  readonly #free: EndpointIndex[] = [];
  readonly #onNew: (endpoint: EndpointIndex, key: StatusKey, id: EndpointId) => void;

  /** `onNew` is called for each number given out, before it is returned. */
  constructor(where: Where, onNew: (endpoint: EndpointIndex, key: StatusKey, id: EndpointId) => void) {
    this.where = where;
    this.#onNew = onNew;
  }

  get size(): number {
    return this.#indexes.size;
  }

  /** Throws an InvalidIdError for an id that no key can hold. */
  intern(id: EndpointId): EndpointIndex {
    return this.#add(statusKey(id, this.where), id);
  }

  /** The number of a key found in etcd; null where it is no status key of this host, or not in the form that we write. */
  internKey(key: string): EndpointIndex | null {
    // Bytes that are no UTF-8 come as replacement characters: that is not the key itself.
    if (key.includes('\ufffd')) return null;
    const id = parseStatusKey(key, this.where);
    if (id === null || statusKey(id, this.where) !== key) return null;
    return this.#add(key as StatusKey, id);
  }

  /** From the journal: this number stood for this key. Ignored (false) where the key belongs to another host or region. */
  restore(endpoint: EndpointIndex, key: string): boolean {
    const id = parseStatusKey(key, this.where);
    if (id === null) return false;
    this.#keys[endpoint] = key as StatusKey;
    this.#ids[endpoint] = id;
    this.#indexes.set(key as StatusKey, endpoint);
    return true;
  }

  /** The endpoint is gone for good: its number will be given to another one. Nobody may still mean it by the number. */
  forget(endpoint: EndpointIndex): void {
    this.#indexes.delete(this.#keys[endpoint]!);
    delete this.#keys[endpoint];
    delete this.#ids[endpoint];
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

  id(endpoint: EndpointIndex): EndpointId {
    return this.#ids[endpoint]!;
  }

  kind(endpoint: EndpointIndex): EndpointKind {
    return this.#ids[endpoint]!.kind;
  }

  *indexes(): IterableIterator<EndpointIndex> {
    yield* this.#indexes.values();
  }

  #add(key: StatusKey, id: EndpointId): EndpointIndex {
    const known = this.#indexes.get(key);
    if (known !== undefined) return known;
    const endpoint = this.#free.pop() ?? (this.#keys.length as EndpointIndex);
    this.#keys[endpoint] = key;
    this.#ids[endpoint] = id;
    this.#indexes.set(key, endpoint);
    this.#onNew(endpoint, key, id);
    return endpoint;
  }
}
