/**
 * From what is seen (interfaces, endpoint definitions, statuses told outright) to each endpoint's status:
 * docs/design.md, section 6. Pure: events go in, statuses come out of `emit` in the order in which they follow.
 *
 * What is seen is told at once. What follows from an interface *not* being there is told only when all interfaces have
 * been read: a restart must not take every port down that it has not come to yet.
 */
import { type EndpointId, idKey } from './id.js';
import { canonicalIp } from './ip.js';
import { Source, Status } from './status.js';

/** What an endpoint's status follows from. */
export type Definition =
  | {
      readonly kind: 'workload';
      readonly id: EndpointId;
      readonly interfaceName: string;
      readonly active: boolean;
    }
  | {
      readonly kind: 'host';
      readonly id: EndpointId;
      /** `*` stands for all interfaces; empty: resolved by the addresses. */
      readonly interfaceName: string;
      readonly expectedIps: readonly string[];
    };

export interface DeriverOptions {
  /** Each interface whose name matches is a workload endpoint of its own (section 5.4); null: none is. */
  readonly interfaces: RegExp | null;
  readonly interfaceExclude: RegExp | null;
  readonly emit: (id: EndpointId, status: Status, source: Source, observedAtUs: number) => void;
}

interface Link {
  /** Null where another interface has its name now: it went, or has a new one, and neither was seen yet. */
  name: string | null;
  running: boolean;
  readonly addresses: Set<string>;
}

export class Deriver {
  readonly #options: DeriverOptions;
  readonly #links = new Map<number, Link>();
  readonly #byName = new Map<string, number>();
  readonly #definitions = new Map<string, Definition>();
  readonly #workloadsByInterface = new Map<string, Set<string>>();
  readonly #hosts = new Set<string>();
  /** Endpoints whose dataplane tells their status itself: that wins, also over a definition that still names them. */
  readonly #outright = new Set<string>();
  readonly #last = new Map<string, Status>();
  #interfacesRead = false;

  constructor(options: DeriverOptions) {
    this.#options = options;
  }

  /** How many interfaces are known. */
  get links(): number {
    return this.#links.size;
  }

  /**
   * An interface is there with this state: new, changed or renamed. A second index with a name that another one has
   * means that the other one went and its deletion was not seen yet (Calico's C5).
   */
  linkSeen(ifindex: number, name: string, running: boolean, atUs: number): void {
    const link = this.#links.get(ifindex) ?? { name: null, running, addresses: new Set<string>() };
    if (link.name === name) {
      if (link.running === running) return;
      link.running = running;
    } else {
      this.#loseName(ifindex, link, atUs);
      const holder = this.#byName.get(name);
      if (holder !== undefined) this.#loseName(holder, this.#links.get(holder)!, atUs);
      link.name = name;
      link.running = running;
      this.#links.set(ifindex, link);
      this.#byName.set(name, ifindex);
      if (this.#standsAlone(name)) this.#define(interfaceDefinition(name));
    }
    this.#interfaceChanged(name, atUs);
  }

  linkGone(ifindex: number, atUs: number): void {
    const link = this.#links.get(ifindex);
    if (link === undefined) return;
    this.#links.delete(ifindex);
    this.#loseName(ifindex, link, atUs);
  }

  /** In canonical form (ip.ts). */
  addressSeen(ifindex: number, address: string, present: boolean, atUs: number): void {
    const link = this.#links.get(ifindex);
    if (link === undefined) return;
    if (present) link.addresses.add(address);
    else link.addresses.delete(address);
    for (const key of this.#hosts) this.#judge(key, Source.netlink, atUs);
  }

  /** All interfaces and addresses that there are have been told: what was not, is not there. */
  interfacesRead(atUs: number): void {
    if (this.#interfacesRead) return;
    this.#interfacesRead = true;
    for (const key of this.#definitions.keys()) this.#judge(key, Source.netlink, atUs);
  }

  /** An endpoint is defined, or defined anew: also one that its dataplane had removed. */
  define(definition: Definition, source: Source, atUs: number): void {
    const key = this.#define(definition);
    if (!this.#last.has(key)) this.#outright.delete(key);
    this.#judge(key, source, atUs);
  }

  /** Its definition is gone. The caller says so only when the source of definitions is in sync, or told it itself. */
  undefine(id: EndpointId, source: Source, atUs: number): void {
    const key = idKey(id);
    this.#undefine(key);
    this.#outright.delete(key);
    this.#tell(key, id, Status.removed, source, atUs);
  }

  /**
   * The dataplane says an endpoint's status itself. After `removed` it stays removed until it is defined anew: its
   * definition goes at about the same time, and until then nothing its interface does may bring it back.
   */
  told(id: EndpointId, status: Status, atUs: number): void {
    const key = idKey(id);
    if (status === Status.removed && !this.#definitions.has(key)) this.#outright.delete(key);
    else this.#outright.add(key);
    this.#tell(key, id, status, Source.felix, atUs);
  }

  /** How many endpoints are defined. */
  get defined(): number {
    return this.#definitions.size;
  }

  #define(definition: Definition): string {
    const key = idKey(definition.id);
    this.#undefine(key);
    if (definition.kind === 'host') {
      this.#definitions.set(key, { ...definition, expectedIps: definition.expectedIps.map(canonicalIp) });
      this.#hosts.add(key);
      return key;
    }
    this.#definitions.set(key, definition);
    const sharing = this.#workloadsByInterface.get(definition.interfaceName) ?? new Set();
    sharing.add(key);
    this.#workloadsByInterface.set(definition.interfaceName, sharing);
    return key;
  }

  #undefine(key: string): void {
    const definition = this.#definitions.get(key);
    if (definition === undefined) return;
    this.#definitions.delete(key);
    this.#hosts.delete(key);
    if (definition.kind === 'host') return;
    const sharing = this.#workloadsByInterface.get(definition.interfaceName);
    sharing?.delete(key);
    if (sharing?.size === 0) this.#workloadsByInterface.delete(definition.interfaceName);
  }

  #standsAlone(name: string): boolean {
    const { interfaces, interfaceExclude } = this.#options;
    return (interfaces?.test(name) ?? false) && !(interfaceExclude?.test(name) ?? false);
  }

  /** The name is no longer this interface's. Its addresses are kept: it may come back with another name. */
  #loseName(ifindex: number, link: Link, atUs: number): void {
    const { name } = link;
    if (name === null) return;
    link.name = null;
    if (this.#byName.get(name) === ifindex) this.#byName.delete(name);
    if (this.#standsAlone(name)) this.undefine(interfaceDefinition(name).id, Source.netlink, atUs);
    this.#interfaceChanged(name, atUs);
  }

  #interfaceChanged(name: string, atUs: number): void {
    for (const key of this.#workloadsByInterface.get(name) ?? []) this.#judge(key, Source.netlink, atUs);
    for (const key of this.#hosts) this.#judge(key, Source.netlink, atUs);
  }

  #judge(key: string, source: Source, atUs: number): void {
    const definition = this.#definitions.get(key);
    if (definition === undefined || this.#outright.has(key)) return;
    if (!this.#interfacesRead && !this.#last.has(key) && this.#mayAppear(definition)) return;
    const status =
      definition.kind === 'workload' ? this.#workloadStatus(definition) : this.#hostStatus(definition);
    this.#tell(key, definition.id, status, source, atUs);
  }

  /** Whether its status hangs on interfaces of which some are perhaps still to be read. */
  #mayAppear(definition: Definition): boolean {
    const { kind, interfaceName } = definition;
    if (kind === 'workload') return definition.active && !this.#byName.has(interfaceName);
    return interfaceName !== '*' && !this.#byName.has(interfaceName);
  }

  /** Never `error`: Neutron would make a failed VIF plug of it, and Nova give the VM up (Calico PR 10656). */
  #workloadStatus(definition: Definition & { kind: 'workload' }): Status {
    return definition.active && this.#isRunning(definition.interfaceName) ? Status.up : Status.down;
  }

  #hostStatus(definition: Definition & { kind: 'host' }): Status {
    const { interfaceName, expectedIps } = definition;
    if (interfaceName === '*') return Status.up;
    if (interfaceName !== '') {
      if (!this.#byName.has(interfaceName)) return Status.error;
      return this.#isRunning(interfaceName) ? Status.up : Status.down;
    }
    const resolved = [...this.#links.values()].filter(
      ({ name, addresses }) => name !== null && expectedIps.some((ip) => addresses.has(ip)),
    );
    if (resolved.length === 0) return Status.error;
    return resolved.every((link) => link.running) ? Status.up : Status.down;
  }

  #isRunning(name: string): boolean {
    const ifindex = this.#byName.get(name);
    return ifindex !== undefined && this.#links.get(ifindex)!.running;
  }

  #tell(key: string, id: EndpointId, status: Status, source: Source, atUs: number): void {
    if (this.#last.get(key) === status) return;
    if (status === Status.removed) this.#last.delete(key);
    else this.#last.set(key, status);
    this.#options.emit(id, status, source, atUs);
  }
}

function interfaceDefinition(name: string): Definition & { kind: 'workload' } {
  const id: EndpointId = { kind: 'workload', orchestrator: 'flapd', workload: name, endpoint: name };
  return { kind: 'workload', id, interfaceName: name, active: true };
}
