/**
 * What flapd is to be told, and what it has been told: the state that outlives flapd's restarts. Pure.
 *
 * Of each endpoint one thing at a time is told and unacknowledged, since flapd may or may not have accepted it when the
 * connection breaks; said again, it is accepted once (src/sources/felix/driver-messages.ts has the protocol). The rest
 * waits its turn, in the order in which it was seen.
 *
 * What waits is bounded. An endpoint with more than its share, or any one where all together have reached the limit,
 * keeps only its final state: flapd misses transitions then, which are counted, but no endpoint ends with a wrong status.
 */
import { type EndpointId, idKey } from '../endpoints/id.js';
import { Status } from '../endpoints/status.js';

/** `content` is as it will be sent (DriverMessage's to_dataplane or from_dataplane). */
export type Item = { readonly atUs: number } & (
  | { readonly kind: 'defined'; readonly content: Uint8Array }
  | { readonly kind: 'removed' }
  | { readonly kind: 'told'; readonly status: Status }
  /** Felix has told all definitions. */
  | { readonly kind: 'inSync' }
  | { readonly kind: 'heartbeat'; readonly content: Uint8Array }
);

/** What is sent next; `id` is null where it is of no endpoint. */
export interface Outgoing {
  readonly id: EndpointId | null;
  readonly item: Item;
  /** Null within a snapshot: the snapshot is not acknowledged piece by piece. */
  readonly sequenceNumber: number | null;
}

export interface LedgerLimits {
  /** Things that wait, of one endpoint. */
  readonly endpointItemsMax: number;
  /** Of all that waits. */
  readonly bytesMax: number;
}

/** What is so once all things up to some point are told: the definition and the status, if there are any. */
interface State {
  definition: (Item & { kind: 'defined' }) | null;
  status: (Item & { kind: 'told' }) | null;
  inSync: Item | null;
}

interface Node {
  readonly item: Item;
  next: Node | null;
}

/** An endpoint; or Felix itself (in sync or not), or the dataplane (alive). */
interface Subject {
  readonly key: string;
  readonly id: EndpointId | null;
  first: Node | null;
  last: Node | null;
  waiting: number;
  /** What was told last and is not acknowledged. */
  unacknowledged: Item | null;
  /** That was told on an earlier connection. */
  again: boolean;
  /** The latest thing seen. */
  latest: Item | null;
  /** After all that has been told. */
  readonly told: State;
  /** After all that has been seen. */
  readonly seen: State;
}

/** What an item takes besides its content, about: its node, its object. */
const itemBytes = 120;

export class Ledger {
  readonly #limits: LedgerLimits;
  readonly #subjects = new Map<string, Subject>();
  /** Those that have something to tell and nothing unacknowledged on this connection, the longest ready first. */
  readonly #ready = new Set<Subject>();
  /** What is unacknowledged on this connection, in order. */
  #underWay: { readonly sequenceNumber: number; readonly subject: Subject }[] = [];
  #sequenceNumber = 0;
  #waiting = 0;
  #waitingBytes = 0;
  #dropped = 0;

  constructor(limits: LedgerLimits) {
    this.#limits = limits;
  }

  /** Things that wait for their turn. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Things that flapd has not acknowledged: what waits, and what is under way or was when the connection broke. */
  get untold(): number {
    let unacknowledged = 0;
    for (const subject of this.#subjects.values()) if (subject.unacknowledged !== null) unacknowledged++;
    return this.#waiting + unacknowledged;
  }

  /** Things that flapd will not be told of, since a later one of their endpoint says more. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Endpoints, and the two others. */
  get subjects(): number {
    return this.#subjects.size;
  }

  /** Something was seen. `id`: of the endpoint; null for an item of none. */
  see(id: EndpointId | null, item: Item): void {
    const subject = this.#subjectOf(id, item);
    if (isNoNews(subject, item)) return;
    if (item.kind === 'heartbeat') this.#dropWaiting(subject); // only the latest one is of use
    subject.latest = item;
    apply(subject.seen, item);
    this.#append(subject, item);
    if (subject.waiting > this.#limits.endpointItemsMax || this.#waitingBytes > this.#limits.bytesMax)
      this.#keepFinalState(subject);
    this.#mayTell(subject);
  }

  /** A connection begins: what was unacknowledged on the one before is to be said again, after the snapshot. */
  connected(): void {
    this.#underWay = [];
    for (const subject of this.#subjects.values()) {
      if (subject.unacknowledged?.kind === 'heartbeat') subject.unacknowledged = null; // an old one is none
      subject.again = subject.unacknowledged !== null;
      this.#mayTell(subject);
    }
  }

  /** All that has been told. May be read in pieces, as long as next() is not called meanwhile. */
  *snapshot(): Generator<Outgoing> {
    for (const { id, told } of this.#subjects.values()) {
      // In this order: where the dataplane has told a status, nothing may follow from the definition in between.
      for (const item of [told.inSync, told.status, told.definition])
        if (item !== null) yield { id, item, sequenceNumber: null };
    }
  }

  /** What is to be told now; null: nothing, until something is seen or acknowledged. */
  next(): Outgoing | null {
    for (const subject of this.#ready) {
      this.#ready.delete(subject);
      const item = this.#takeNext(subject);
      if (item === null) continue;
      const sequenceNumber = ++this.#sequenceNumber;
      this.#underWay.push({ sequenceNumber, subject });
      return { id: subject.id, item, sequenceNumber };
    }
    return null;
  }

  /** All up to this number is accepted. */
  acknowledged(sequenceNumber: number): void {
    let done = 0;
    for (const { sequenceNumber: number, subject } of this.#underWay) {
      if (number > sequenceNumber) break;
      done++;
      subject.unacknowledged = null;
      this.#mayTell(subject);
      this.#mayForget(subject);
    }
    this.#underWay.splice(0, done);
  }

  #subjectOf(id: EndpointId | null, item: Item): Subject {
    const key = id === null ? item.kind : idKey(id);
    const known = this.#subjects.get(key);
    if (known !== undefined) return known;
    const nothing = { definition: null, status: null, inSync: null };
    const subject: Subject = {
      key,
      id,
      first: null,
      last: null,
      waiting: 0,
      unacknowledged: null,
      again: false,
      latest: null,
      told: { ...nothing },
      seen: { ...nothing },
    };
    this.#subjects.set(key, subject);
    return subject;
  }

  #append(subject: Subject, item: Item): void {
    const node: Node = { item, next: null };
    if (subject.last === null) subject.first = node;
    else subject.last.next = node;
    subject.last = node;
    subject.waiting++;
    this.#waiting++;
    this.#waitingBytes += bytesOf(item);
  }

  #shift(subject: Subject): Item | null {
    const node = subject.first;
    if (node === null) return null;
    subject.first = node.next;
    if (subject.first === null) subject.last = null;
    subject.waiting--;
    this.#waiting--;
    this.#waitingBytes -= bytesOf(node.item);
    return node.item;
  }

  #takeNext(subject: Subject): Item | null {
    if (subject.again) {
      subject.again = false;
      return subject.unacknowledged;
    }
    const item = this.#shift(subject);
    if (item === null) return null;
    subject.unacknowledged = item;
    apply(subject.told, item);
    return item;
  }

  #mayTell(subject: Subject): void {
    if (subject.again || (subject.first !== null && subject.unacknowledged === null))
      this.#ready.add(subject);
  }

  #dropWaiting(subject: Subject): number {
    let dropped = 0;
    while (this.#shift(subject) !== null) dropped++;
    return dropped;
  }

  /** Instead of all that waits: the fewest things that lead from what is told to what is seen. */
  #keepFinalState(subject: Subject): void {
    const { told, seen } = subject;
    const goes =
      (told.definition !== null && seen.definition === null) ||
      (told.status !== null && seen.status === null);
    const items: Item[] = goes ? [{ kind: 'removed', atUs: subject.latest!.atUs }] : [];
    for (const part of ['inSync', 'definition', 'status'] as const) {
      const item = seen[part];
      if (item !== null && item !== told[part]) items.push(item);
    }
    if (items.length >= subject.waiting) return;
    this.#dropped += this.#dropWaiting(subject) - items.length;
    for (const item of items) this.#append(subject, item);
    this.#mayForget(subject);
  }

  /** flapd knows nothing of it, and there is nothing that it should know. */
  #mayForget(subject: Subject): void {
    const { told, first, unacknowledged } = subject;
    if (first !== null || unacknowledged !== null) return;
    if (told.definition !== null || told.status !== null || told.inSync !== null) return;
    this.#ready.delete(subject);
    this.#subjects.delete(subject.key);
  }
}

/** Whether it says only what the one before it has said. A definition comes again whenever an endpoint's policy changes. */
function isNoNews({ latest, seen }: Subject, item: Item): boolean {
  switch (item.kind) {
    case 'defined':
      return seen.definition !== null && Buffer.compare(seen.definition.content, item.content) === 0;
    case 'told':
      return latest?.kind === 'told' && latest.status === item.status;
    case 'removed':
    case 'inSync':
      return latest?.kind === item.kind;
    case 'heartbeat':
      return false;
  }
}

/** After a dataplane's own `removed`, an endpoint is not there until it is defined anew (src/endpoints/derive.ts). */
function apply(state: State, item: Item): void {
  switch (item.kind) {
    case 'defined':
      state.definition = item;
      break;
    case 'told':
      state.status = item.status === Status.removed ? null : item;
      if (item.status === Status.removed) state.definition = null;
      break;
    case 'removed':
      state.definition = null;
      state.status = null;
      break;
    case 'inSync':
      state.inSync = item;
      break;
    case 'heartbeat': // is forgotten once it is told
  }
}

function bytesOf(item: Item): number {
  return itemBytes + ('content' in item ? item.content.length : 0);
}
