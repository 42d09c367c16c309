/**
 * The sources of a daemon, by `endpoints.from`, and what becomes of their observations:
 *
 *     calico      datastore (definitions) ─┐
 *     felix       driver feed (the same) ──┼─► deriver ─┐
 *     interfaces  netlink (in all three) ──┘            ├─► intake ─► core
 *     feed        feed ─────────────────────────────────┘
 *
 * Feeders tell statuses outright. Where endpoints are known from elsewhere as well, these pass the deriver, so that they
 * win over what follows from an interface; where they are all that there is, they go straight to the core.
 */
import type { SettingValues } from '../../config/settings.js';
import { Deriver } from '../../endpoints/derive.js';
import { idKey } from '../../endpoints/id.js';
import type { EndpointRegistry } from '../../endpoints/registry.js';
import { Source } from '../../endpoints/status.js';
import type { InterfaceCounters } from '../../journal/journal.js';
import { DatastoreSource } from '../../sources/datastore/datastore.js';
import type { List, Watch } from '../../sources/datastore/follow.js';
import { DriverFeed } from '../../sources/felix/driver-feed.js';
import { FeedSource, type FrameResult } from '../../sources/felix/feed.js';
import { NetlinkSource } from '../../sources/netlink/netlink.js';
import type { Log } from '../../telemetry/log.js';
import type { Saying } from '../operate/saying.js';
import type { Intake } from './intake.js';

export interface Dataplane {
  readonly uptimeSeconds: number;
  /** Monotonic milliseconds. */
  readonly heardAtMs: number;
}

export interface SourcesOptions {
  readonly settings: SettingValues;
  readonly registry: EndpointRegistry;
  readonly intake: Intake;
  readonly log: Log;
  /** A source has told all that exists: what no source names may be gone. */
  readonly onInSync: (source: string) => void;
  /** All interfaces have been read. */
  readonly onInterfacesRead: () => void;
  /** etcd, for Calico's resources. */
  readonly list: List;
  readonly watch: Watch;
  readonly saying: Saying;
  readonly onCounters: (counters: InterfaceCounters) => void;
}

const nowUs = (): number => Date.now() * 1000;

export class Sources {
  readonly #options: SourcesOptions;
  readonly #deriver: Deriver;
  readonly #netlink: NetlinkSource | null;
  readonly #datastore: DatastoreSource | null;
  readonly #feed: FeedSource | null;
  readonly #driverFeed: DriverFeed | null;
  #dataplane: Dataplane | null = null;
  #open = false;
  readonly #frames: Record<FrameResult, number> = {
    ok: 0,
    ignored: 0,
    invalid: 0,
    tooLong: 0,
    cutShort: 0,
    timeout: 0,
  };

  constructor(options: SourcesOptions) {
    this.#options = options;
    const { settings, intake } = options;
    const from = settings['endpoints.from'];
    this.#deriver = new Deriver({
      interfaces: from === 'interfaces' ? settings['endpoints.interfaces'] : null,
      interfaceExclude: settings['endpoints.interfaceExclude'],
      emit: (id, status, source, atUs) => intake.observeId(id, status, source, atUs),
    });
    this.#netlink = from === 'feed' ? null : this.#newNetlink();
    this.#datastore = from === 'calico' ? this.#newDatastore() : null;
    this.#feed = settings['feed.socket'] === null ? null : this.#newFeed(settings['feed.socket']);
    const driverSocket = from === 'calico' || from === 'felix' ? settings['driver.socket'] : null;
    this.#driverFeed = driverSocket === null ? null : this.#newDriverFeed(driverSocket);
  }

  /** The last heartbeat of a dataplane; null: none came yet. */
  get dataplane(): Dataplane | null {
    return this.#dataplane;
  }

  /** Whether what no source names may be taken for gone. */
  get inSync(): boolean {
    const from = this.#options.settings['endpoints.from'];
    if (from === 'felix') return (this.#netlink?.inSync ?? false) && (this.#driverFeed?.inSync ?? false);
    if (from === 'calico') return (this.#netlink?.inSync ?? false) && (this.#datastore?.inSync ?? false);
    if (from === 'interfaces') return this.#netlink?.inSync ?? false;
    return this.#feed?.inSync ?? false;
  }

  /** What has not been read yet, though it is there to be read; null: nothing. */
  get waitsFor(): string | null {
    if (!this.#open) return 'they are not open yet';
    if (this.#netlink?.inSync === false) return 'the interfaces have not been read yet';
    if (this.#datastore?.inSync === false) return "Calico's resources have not been read yet";
    const felix = this.#options.settings['endpoints.from'] === 'felix';
    return felix && !this.inSync ? 'Felix has not told its endpoints yet (flapd felix-driver)' : null;
  }

  /** By source; those alone that have to tell all that exists before anything can be removed. */
  get synced(): ReadonlyMap<string, boolean> {
    const from = this.#options.settings['endpoints.from'];
    const synced = new Map<string, boolean>();
    if (this.#netlink !== null) synced.set('netlink', this.#netlink.inSync);
    if (this.#datastore !== null) synced.set('datastore', this.#datastore.inSync);
    if (from === 'felix') synced.set('felix', this.#driverFeed?.inSync ?? false);
    if (from === 'feed') synced.set('felix', this.#feed?.inSync ?? false);
    return synced;
  }

  get netlinkFigures(): NetlinkSource['figures'] {
    return this.#netlink?.figures ?? { messages: 0, overruns: 0, malformed: 0, recoveredFlaps: 0 };
  }

  get datastoreFigures(): { readonly damages: number; readonly unreadable: number } {
    return this.#datastore?.figures ?? { damages: 0, unreadable: 0 };
  }

  /** By idKey(): endpoints of which it cannot be said whether they are there. */
  get undecided(): ReadonlySet<string> {
    return new Set([...(this.#datastore?.unreadable() ?? [])].map(idKey));
  }

  /** By the labels of the metric: source and result with a space between. */
  get frames(): ReadonlyMap<string, number> {
    return new Map(Object.entries(this.#frames).map(([result, count]) => [`felix ${result}`, count]));
  }

  /** Before the start: the counters that an interface had when flapd last ran. */
  remember(counters: InterfaceCounters): void {
    this.#netlink?.remember(counters);
  }

  async start(): Promise<void> {
    await this.#netlink?.start();
    await this.#datastore?.start();
    await this.#feed?.start();
    const socket = this.#options.settings['feed.socket'];
    if (socket !== null) this.#options.log.info({ socket }, 'the feed socket is open');
    await this.#driverFeed?.start();
    this.#open = true;
  }

  async stop(): Promise<void> {
    await this.#netlink?.stop();
    await this.#datastore?.stop();
    await this.#feed?.stop();
    await this.#driverFeed?.stop();
  }

  /** Feeders wait until resume(). */
  pause(): void {
    this.#feed?.pause();
    this.#driverFeed?.pause();
  }

  resume(): void {
    this.#feed?.resume();
    this.#driverFeed?.resume();
  }

  /** Everything up to this seq is in the journal for good. */
  durable(seq: number): void {
    this.#feed?.durable(seq);
    this.#driverFeed?.durable(seq);
  }

  /** etcd was set back: its watches may not have noticed. */
  listAgain(): void {
    this.#datastore?.listAgain();
  }

  /** Endpoints' numbers are given out anew. */
  forgetNumbers(): void {
    this.#feed?.forgetNumbers();
  }

  #newFeed(socketPath: string): FeedSource {
    const { settings, intake, registry, log, onInSync } = this.#options;
    const outright = settings['endpoints.from'] === 'feed';
    return new FeedSource({
      socketPath,
      group: settings['feed.group'],
      frameBytesMax: settings['feed.frameMax'],
      connectionsMax: settings['feed.connectionsMax'],
      endpointsMax: settings['endpoints.max'],
      frameTimeoutMs: settings['feed.frameTimeout'],
      nowUs,
      log,
      sink: {
        intern: (id) => intake.intern(id),
        observe: (endpoint, status, atUs) => {
          if (outright) intake.observe(endpoint, status, Source.felix, atUs);
          else this.#deriver.told(registry.id(endpoint), status, atUs);
          return intake.seq;
        },
      },
      onFrame: (result) => {
        this.#frames[result]++;
      },
      onInSync: () => {
        log.info({}, 'the dataplane is in sync: what it has not named is no endpoint');
        onInSync('felix');
      },
      onProcessStatus: ({ uptimeSeconds }) => this.#heard(uptimeSeconds),
    });
  }

  /** With `calico`, which endpoints there are is the datastore's to say: Felix has it from there as well. */
  #newDriverFeed(socketPath: string): DriverFeed {
    const { settings, intake, log, onInSync } = this.#options;
    const deriver = this.#deriver;
    const defines = settings['endpoints.from'] === 'felix';
    return new DriverFeed({
      socketPath,
      group: settings['feed.group'],
      frameTimeoutMs: settings['feed.frameTimeout'],
      nowUs,
      log,
      onFrame: (result) => {
        this.#frames[result]++;
      },
      events: {
        defined: (definition, atUs) => {
          if (defines) deriver.define(definition, Source.felix, atUs);
          return intake.seq;
        },
        removed: (id, atUs) => {
          if (defines) deriver.undefine(id, Source.felix, atUs);
          return intake.seq;
        },
        told: (id, status, atUs) => {
          deriver.told(id, status, atUs);
          return intake.seq;
        },
        processStatus: ({ uptimeSeconds }) => this.#heard(uptimeSeconds),
        inSync: () => {
          log.info({}, 'Felix has told all its endpoints');
          onInSync('felix');
        },
      },
    });
  }

  #heard(uptimeSeconds: number): void {
    this.#dataplane = { uptimeSeconds, heardAtMs: performance.now() };
  }

  #newDatastore(): DatastoreSource {
    const { registry, list, watch, log, saying, onInSync } = this.#options;
    const deriver = this.#deriver;
    return new DatastoreSource({
      where: registry.where,
      list,
      watch,
      nowUs,
      log,
      events: {
        defined: (definition, atUs) => deriver.define(definition, Source.datastore, atUs),
        undefined: (id, atUs) => deriver.undefine(id, Source.datastore, atUs),
        inSync: () => {
          log.info({ endpoints: deriver.defined }, "Calico's resources have been read");
          onInSync('datastore');
        },
        damaged: (key, why) =>
          log.warn({ key, why }, 'a resource of Calico cannot be read: what it said before stays in force'),
        repaired: (key) => log.info({ key }, 'a resource of Calico can be read again'),
        failing: (what, why) =>
          saying.once(
            what,
            { what, why },
            "Calico's resources cannot be read at present; what is known of them stays, trying again",
          ),
        following: (what) => saying.over(what),
      },
    });
  }

  #newNetlink(): NetlinkSource {
    const { settings, log, onInterfacesRead, onInSync, onCounters } = this.#options;
    const deriver = this.#deriver;
    return new NetlinkSource({
      receiveBufferBytes: settings['netlink.receiveBuffer'],
      carrierCounters: settings['netlink.carrierCounters'],
      nowUs,
      log,
      events: {
        linkSeen: (ifindex, name, running, atUs) => deriver.linkSeen(ifindex, name, running, atUs),
        linkGone: (ifindex, atUs) => deriver.linkGone(ifindex, atUs),
        address: (ifindex, address, present, atUs) => deriver.addressSeen(ifindex, address, present, atUs),
        inSync: () => {
          deriver.interfacesRead(nowUs());
          log.info({ interfaces: deriver.links }, 'the interfaces have been read');
          onInterfacesRead();
          onInSync('netlink');
        },
        counters: onCounters,
      },
    });
  }
}
