/**
 * flapd, assembled: sources, derivation, journal, core, workers, telemetry, in the way of the data (docs/design.md,
 * section 3). It knows how they are wired and in which order they start and stop; what they do is theirs.
 */
import { randomUUID } from 'node:crypto';
import type { Etcd3 } from 'etcd3';
import type { SettingValues } from '../config/settings.js';
import { Deriver } from '../endpoints/derive.js';
import type { EndpointId, EndpointIndex } from '../endpoints/id.js';
import { claimKey, cursorKey, InvalidIdError } from '../endpoints/key.js';
import { EndpointRegistry } from '../endpoints/registry.js';
import { Source, Status, sourceName, statusName } from '../endpoints/status.js';
import { watchClaim } from '../etcd/claim.js';
import { openEtcd } from '../etcd/client.js';
import type { EtcdConnection } from '../etcd/connection.js';
import { TxnEncoder } from '../etcd/encoding.js';
import { thisMachine } from '../etcd/machine.js';
import { WorkerPool } from '../etcd/pool.js';
import type { Journal, JournalListener } from '../journal/journal.js';
import { sackMax } from '../reporter/cursor.js';
import { FeedSource, type FrameResult } from '../sources/felix/feed.js';
import { NetlinkSource } from '../sources/netlink/netlink.js';
import { Episodes } from '../telemetry/episode.js';
import { type Health, judge } from '../telemetry/health.js';
import { HttpServer } from '../telemetry/http.js';
import type { Log } from '../telemetry/log.js';
import { Metrics, type Readings } from '../telemetry/metrics.js';
import { BootMark } from './boot.js';
import { Driver } from './driver.js';
import { listStatuses, Resync } from './resync.js';

export interface DaemonOptions {
  readonly settings: SettingValues;
  readonly connection: EtcdConnection;
  readonly openJournal: (listener: JournalListener) => Promise<Journal>;
  readonly version: string;
  readonly log: Log;
  /** It cannot go on; see exit.ts for the codes. */
  readonly onFatal: (code: 'fenced' | 'bug' | 'journal', why: string) => void;
}

/** How long the sources wait for the claim, so that what etcd has is known before the first observation. */
const claimGraceMs = 2000;
/** Feeders wait while more than this is not yet durable ... */
const unsyncedHigh = 65_536;
/** ... until no more than this is. */
const unsyncedLow = 16_384;

export class Daemon {
  readonly #options: DaemonOptions;
  readonly #log: Log;
  readonly #episodes = new Episodes();
  readonly #registry: EndpointRegistry;
  readonly #deriver: Deriver;
  readonly #pool: WorkerPool;
  readonly #encoder: TxnEncoder;
  readonly #driver: Driver;
  readonly #resync: Resync;
  readonly #metrics: Metrics;
  readonly #http: HttpServer | null;
  readonly #feed: FeedSource | null;
  readonly #netlink: NetlinkSource | null;
  readonly #boot: BootMark | null;
  #client: Etcd3;
  #journal: Journal | null = null;
  readonly #watching = new AbortController();
  #watched = false;
  #claims = 0;
  #claimed: (() => void) | null = null;
  #seeding = false;
  #feedPaused = false;
  #durableSeq = 0;
  #stopping = false;
  readonly #accepted = new Float64Array(4 * 4);
  readonly #ignored = { unchanged: 0, queue_full: 0, too_many_endpoints: 0 };
  readonly #frames: Record<FrameResult, number> = {
    ok: 0,
    ignored: 0,
    invalid: 0,
    tooLong: 0,
    cutShort: 0,
    timeout: 0,
  };

  constructor(options: DaemonOptions) {
    const { settings, connection, log } = options;
    this.#options = options;
    this.#log = log;
    this.#client = openEtcd(connection);
    const journal = settings['journal.dir'];
    this.#boot = journal === null ? null : new BootMark(journal);
    const where = { host: settings.host, region: settings.region };
    this.#registry = new EndpointRegistry(where, (endpoint, key) => {
      this.#driver.introduce(endpoint);
      this.#journal?.nameEndpoint(endpoint, key);
    });
    this.#pool = new WorkerPool({
      connection,
      lanes: settings.lanes,
      ...(settings.workers > 0 ? { workers: settings.workers } : {}),
      rate: { txnsPerSecond: settings['limits.txnsPerSecond'], burst: settings['limits.burst'] },
      onFatal: (error) => options.onFatal('bug', error.message),
      onReplaced: (why) =>
        log.warn({ why }, 'a worker thread was replaced; what it had in hand is sent again'),
    });
    this.#encoder = new TxnEncoder({
      claimKey: claimKey(where),
      cursorKey: (lane) => cursorKey(where, lane),
      statusKeyOf: (endpoint) => this.#registry.key(endpoint),
    });
    this.#driver = this.#newDriver(where);
    this.#resync = new Resync({
      driver: this.#driver,
      registry: this.#registry,
      client: () => this.#client,
      intervalMs: settings['resync.interval'],
      inSync: () => this.#inSync(),
      onResult: (result, corrections) => {
        this.#metrics.resyncRuns.inc({ result });
        for (const [action, count] of Object.entries(corrections))
          if (count > 0) this.#metrics.resyncCorrections.inc({ action }, count);
        if (result === 'corrected')
          log.info(corrections, 'resync: etcd differed from what is known and is put right');
        if (result !== 'failed') this.#over('resync');
        this.#forgetGone();
      },
      onError: (error) =>
        this.#episode(
          'resync',
          { error: String(error) },
          "resync: etcd's keys could not be listed; trying again",
        ),
    });
    this.#deriver = new Deriver({
      interfaces: settings['endpoints.from'] === 'interfaces' ? settings['endpoints.interfaces'] : null,
      interfaceExclude: settings['endpoints.interfaceExclude'],
      emit: (id, status, source, atUs) => {
        try {
          this.#observe(this.#intern(id), status, source, atUs);
        } catch (error) {
          if (!(error instanceof InvalidIdError)) throw error;
          this.#log.warn({ id, why: error.message }, 'an endpoint that no key can hold is left out');
        }
      },
    });
    this.#feed = settings['feed.socket'] === null ? null : this.#newFeed(settings['feed.socket']);
    this.#netlink = settings['endpoints.from'] === 'feed' ? null : this.#newNetlink();
    this.#metrics = new Metrics(() => this.#readings(), options.version);
    this.#http =
      settings.http === null
        ? null
        : new HttpServer({
            ...settings.http,
            required: settings.httpRequired,
            registry: this.#metrics.registry,
            health: () => this.health(),
            about: () => this.#about(),
            log,
          });
  }

  get pending(): number {
    return this.#driver.reporter.pending;
  }

  get httpPort(): number | null {
    return this.#http?.port ?? null;
  }

  async start(): Promise<void> {
    const { log } = this.#options;
    if (thisMachine().from === 'hostname') {
      log.warn(
        {},
        'this machine has no machine id: another one with the same host name could not be told from it',
      );
    }
    if (this.#options.settings['endpoints.from'] === 'calico') {
      log.warn(
        {},
        "this version does not read Calico's resources yet: only what a dataplane feeds through the socket is reported, and nothing is removed by itself (endpoints.from: interfaces or feed)",
      );
    }
    await this.#http?.start();
    if (this.#http?.listening)
      log.info({ port: this.#http.port }, `metrics and health on http://127.0.0.1:${this.#http.port}/`);
    this.#journal = await this.#options.openJournal(this.#journalListener());
    this.#driver.recover(this.#journal);
    if (this.pending > 0)
      log.info({ pending: this.pending }, 'transitions left in the journal are pending again');
    await this.#pool.start();
    const claimed = new Promise<void>((resolve) => {
      this.#claimed = resolve;
    });
    this.#driver.start();
    // With etcd there, what it has is known before the first thing is seen. Without it, nothing waits: see Reporter.seed().
    await Promise.race([claimed, new Promise((resolve) => setTimeout(resolve, claimGraceMs).unref())]);
    if (this.#stopping) return;
    if (this.#boot?.same) {
      for (const counters of this.#journal.recovered.counters) this.#netlink?.remember(counters);
    }
    await this.#netlink?.start();
    await this.#feed?.start();
    if (this.#feed !== null)
      log.info({ socket: this.#options.settings['feed.socket'] }, 'the feed socket is open');
  }

  /** Reads no more, writes what is pending within so long, ends. Returns how much is left. */
  async stop(drainMs: number): Promise<number> {
    this.#stopping = true;
    await this.#netlink?.stop();
    await this.#feed?.stop();
    this.#resync.stop();
    const untilMs = performance.now() + drainMs;
    while (this.pending > 0 && performance.now() < untilMs)
      await new Promise((resolve) => setTimeout(resolve, 10));
    return this.#end();
  }

  /** Ends at once. Returns how much is left. */
  async abort(): Promise<number> {
    this.#stopping = true;
    await this.#netlink?.stop();
    await this.#feed?.stop();
    this.#resync.stop();
    return this.#end();
  }

  async #end(): Promise<number> {
    const left = this.pending;
    this.#driver.stop();
    this.#watching.abort();
    await this.#pool.close();
    this.#client.close();
    await this.#journal?.close();
    await this.#http?.stop();
    this.#metrics.close();
    return left;
  }

  health(): Health {
    const { reporter } = this.#driver;
    const { denied } = reporter;
    const pendingMax = this.#options.settings['queue.maxPending'];
    return judge([
      { name: 'starting', ok: this.#journal !== null },
      {
        name: 'etcd',
        ok: reporter.etcdUp,
        reason: reporter.state === 'writing' ? 'does not answer' : `not claimed yet (${reporter.state})`,
      },
      { name: 'permission', ok: denied === null, reason: denied ?? '' },
      { name: 'sources', ok: this.#netlink?.inSync ?? true, reason: 'the interfaces have not been read yet' },
      { name: 'stopping', ok: !this.#stopping },
      {
        name: 'journal',
        ok: this.#journal?.accepting ?? true,
        degradesOnly: true,
        reason: 'full: feeders wait',
      },
      {
        name: 'queue',
        ok: reporter.pending < pendingMax,
        degradesOnly: true,
        reason: 'full: only final states are reported',
      },
    ]);
  }

  #newDriver(where: { host: string; region: string | null }): Driver {
    const { settings, log } = this.#options;
    const keys = { claimKey: claimKey(where), cursorKey: (lane: number) => cursorKey(where, lane) };
    return new Driver({
      reporter: {
        lanes: settings.lanes,
        sackMax,
        txn: {
          maxOps: settings['txn.maxOps'],
          bytesMax: settings['txn.bytesMax'],
          watchBytesMax: settings['txn.watchBytesMax'],
        },
        limits: { txnsPerSecond: settings['limits.txnsPerSecond'], burst: settings['limits.burst'] },
        schedule: {
          endpointDelayMs: settings['limits.endpointDelay'],
          endpointCatchUpMs: settings['limits.endpointCatchUp'],
          confirm: settings['reader.confirm'],
          confirmAfterMs: settings['reader.confirmAfter'],
          confirmAfterOutageMs: settings['reader.confirmAfterOutage'],
        },
        pendingMax: settings['queue.maxPending'],
        startJitterMs: settings['limits.txnsPerSecond'] === 0 ? 0 : 200,
      },
      registry: this.#registry,
      encoder: this.#encoder,
      pool: this.#pool,
      identity: {
        ...keys,
        instance: randomUUID(),
        machine: thisMachine().name,
        startedAt: new Date().toISOString(),
        take: false, // flapd claim --take is for that
      },
      client: () => this.#client,
      events: {
        accepted: (source, status) => {
          this.#accepted[source * 4 + status]!++;
        },
        committed: ({ seqs, acceptedAtMs, recovered }, nowMs) => {
          const { commitLatency } = this.#metrics;
          for (let i = 0; i < seqs.length; i++) {
            if (Number.isNaN(seqs[i])) {
              this.#metrics.confirmations++;
            } else {
              this.#metrics.committed++;
              commitLatency.observe((nowMs - acceptedAtMs[i]!) / 1000);
            }
          }
          if (recovered) this.#metrics.recovered++;
          this.#over('etcd');
          this.#over('denied');
        },
        txn: (result, durationMs, waitedMs, ops) => {
          this.#metrics.txnDuration.observe({ result }, durationMs / 1000);
          this.#metrics.rateLimitWait.observe(waitedMs / 1000);
          this.#metrics.txnOps.observe(ops);
        },
        retry: (reason, message, delayMs) => {
          this.#metrics.txnRetries.inc({ reason });
          if (reason === 'denied') {
            this.#episode(
              'denied',
              { message },
              "etcd denies flapd a permission: its role needs readwrite below flapd's own prefix and the host's status keys; everything is kept, trying again every 30 s",
            );
          } else {
            this.#episode(
              'etcd',
              { reason, message, delayMs },
              'etcd does not take what is written; everything is kept and sent again',
            );
          }
        },
        deadLetter: (endpoint, status, reason) => {
          this.#metrics.deadLetters.inc();
          log.error(
            { key: this.#registry.key(endpoint), status: statusName(status), reason },
            'etcd will never take this transition: it is set aside',
          );
        },
        claimed: (epoch, revision) => this.#onClaimed(epoch, revision),
        fenced: (by) => this.#options.onFatal('fenced', by),
        resync: (reason) => {
          if (reason === 'restored')
            log.warn({}, 'etcd was set back or emptied: comparing all that is known with it');
          else if (this.#options.settings['journal.dir'] !== null)
            log.warn(
              {},
              'the cursors in etcd are ahead of the journal (lost, or an old copy?): going on above them',
            );
          this.#resync.now();
        },
        durable: (seq) => {
          this.#durableSeq = seq;
          this.#feed?.durable(seq);
        },
        polled: () => this.#throttleFeed(),
      },
    });
  }

  #newFeed(socketPath: string): FeedSource {
    const { settings, log } = this.#options;
    return new FeedSource({
      socketPath,
      group: settings['feed.group'],
      frameBytesMax: settings['feed.frameMax'],
      connectionsMax: settings['feed.connectionsMax'],
      frameTimeoutMs: settings['feed.frameTimeout'],
      nowUs: () => Date.now() * 1000,
      log,
      sink: {
        intern: (id) => this.#intern(id),
        observe: (endpoint, status, atUs) => {
          this.#observe(endpoint, status, Source.felix, atUs);
          return this.#driver.reporter.lastSeq;
        },
      },
      onFrame: (result) => {
        this.#frames[result]++;
      },
      onInSync: () => {
        log.info({}, 'the dataplane is in sync: what it has not named is no endpoint');
        this.#resync.now();
      },
    });
  }

  #newNetlink(): NetlinkSource {
    const { settings, log } = this.#options;
    return new NetlinkSource({
      receiveBufferBytes: settings['netlink.receiveBuffer'],
      carrierCounters: settings['netlink.carrierCounters'],
      nowUs: () => Date.now() * 1000,
      log,
      events: {
        linkSeen: (ifindex, name, running, atUs) => this.#deriver.linkSeen(ifindex, name, running, atUs),
        linkGone: (ifindex, atUs) => this.#deriver.linkGone(ifindex, atUs),
        address: (ifindex, address, present, atUs) =>
          this.#deriver.addressSeen(ifindex, address, present, atUs),
        inSync: () => {
          this.#deriver.interfacesRead(Date.now() * 1000);
          log.info({ interfaces: this.#deriver.links }, 'the interfaces have been read');
          void this.#leaveBootMark();
          this.#resync.now();
        },
        counters: (counters) => this.#journal?.counters(counters),
      },
    });
  }

  async #leaveBootMark(): Promise<void> {
    try {
      await this.#journal?.flush();
      this.#boot?.leave();
    } catch (error) {
      this.#log.warn(
        { error: String(error) },
        'flaps of interfaces while flapd is not running will not be found at the next start',
      );
    }
  }

  #observe(endpoint: EndpointIndex, status: Status, source: Source, atUs: number): void {
    const observed = this.#driver.observe(endpoint, status, source, atUs);
    if (observed === 'accepted') return;
    if (observed === 'unchanged') {
      this.#ignored.unchanged++;
      return;
    }
    this.#ignored.queue_full++;
    this.#episode(
      'queue',
      { pending: this.pending },
      'the queues are full: from now on only final states are reported, until there is room',
    );
  }

  /** Numbers of endpoints that are long gone go to new ones: what is kept must not grow with all that ever lived. */
  #forgetGone(): void {
    const nowMs = performance.now();
    let forgotten = 0;
    for (const endpoint of [...this.#registry.indexes()]) {
      if (!this.#driver.reporter.forgettable(endpoint, nowMs)) continue;
      this.#driver.reporter.forget(endpoint);
      this.#encoder.forget(endpoint);
      this.#registry.forget(endpoint);
      forgotten++;
    }
    if (forgotten > 0) this.#feed?.forgetNumbers();
  }

  #intern(id: EndpointId): EndpointIndex {
    const { 'endpoints.max': max } = this.#options.settings;
    const known = this.#registry.find(id);
    if (known !== undefined) return known;
    if (this.#registry.size >= max) {
      this.#ignored.too_many_endpoints++;
      throw new InvalidIdError(`there are ${max} endpoints already, and no more are taken (endpoints.max)`);
    }
    return this.#registry.intern(id);
  }

  /** Whether what no source names may be taken for gone. */
  #inSync(): boolean {
    switch (this.#options.settings['endpoints.from']) {
      case 'interfaces':
        return this.#netlink?.inSync ?? false;
      case 'feed':
        return this.#feed?.inSync ?? false;
      case 'calico':
        return false; // the resources are not read yet: nobody can say what does not exist
    }
  }

  #onClaimed(epoch: number, revision: number): void {
    this.#watchClaim(revision + 1);
    this.#metrics.claims.inc({ reason: this.#claims++ === 0 ? 'start' : 'restored' });
    this.#log.info({ epoch, host: this.#options.settings.host }, 'claimed: this flapd writes for the host');
    if (this.#driver.reporter.state === 'seeding') void this.#seed();
  }

  /** Until etcd's keys are known nothing is sent, so it is tried until it works, or is known never to. */
  async #seed(): Promise<void> {
    if (this.#seeding) return;
    this.#seeding = true;
    while (!this.#stopping && this.#driver.reporter.state === 'seeding') {
      try {
        const { statuses } = await listStatuses(this.#client, this.#registry);
        this.#driver.seed(statuses);
      } catch (error) {
        if (/permission denied/.test(String(error))) {
          this.#log.warn(
            { error: String(error) },
            'the role may not read the status keys: statuses that etcd has already are written again, and no resync is made',
          );
          this.#driver.seed(null);
        } else {
          this.#episode(
            'list',
            { error: String(error) },
            "etcd's status keys could not be read yet; trying again",
          );
          await new Promise((resolve) => setTimeout(resolve, 500));
        }
      }
    }
    this.#over('list');
    this.#seeding = false;
    this.#claimed?.();
    this.#resync.now();
  }

  /** A flapd that has nothing to write would not notice that it was taken over: the watch is a hint to ask. */
  #watchClaim(fromRevision: number): void {
    if (this.#watched) return;
    this.#watched = true;
    void watchClaim(this.#options.connection, claimKey(this.#registry.where), {
      fromRevision,
      onChange: (claim) => {
        if (claim === null || claim.epoch !== this.#driver.reporter.epoch) this.#driver.probe();
      },
      signal: this.#watching.signal,
    });
  }

  #journalListener(): JournalListener {
    const { log, onFatal } = this.#options;
    return {
      durable: (seq) => this.#driver.durable(seq),
      accepting: (accepting, why) => {
        if (accepting) log.info({}, 'the journal takes all that comes again');
        else log.error({ why }, 'the journal is full: feeders wait, what interfaces do is kept in memory');
        this.#throttleFeed();
      },
      failed: (error) => onFatal('journal', error.message),
      synced: (seconds) => this.#metrics.journalSync.observe(seconds),
    };
  }

  /** Feeders can wait: they do where the queues, the journal or the disk cannot keep up with them. */
  #throttleFeed(): void {
    if (this.#feed === null || this.#stopping) return;
    const { reporter } = this.#driver;
    const pendingMax = this.#options.settings['queue.maxPending'];
    const unsynced = reporter.lastSeq - Math.max(this.#durableSeq, reporter.firstSeq - 1);
    const accepting = this.#journal?.accepting ?? true;
    if (!this.#feedPaused && (!accepting || unsynced > unsyncedHigh || reporter.pending > pendingMax * 0.9)) {
      this.#feedPaused = true;
      this.#feed.pause();
    } else if (
      this.#feedPaused &&
      accepting &&
      unsynced <= unsyncedLow &&
      reporter.pending <= pendingMax * 0.8
    ) {
      this.#feedPaused = false;
      this.#feed.resume();
    }
  }

  #episode(what: string, fields: object, message: string): void {
    if (this.#episodes.happened(what, performance.now())) this.#log.warn(fields, message);
  }

  #over(what: string): void {
    const episode = this.#episodes.over(what, performance.now());
    if (episode !== null) this.#log.info({ what, ...episode }, 'that is over');
  }

  #readings(): Readings {
    const { reporter } = this.#driver;
    const accepted = new Map<string, number>();
    this.#accepted.forEach((count, i) => {
      if (count > 0)
        accepted.set(`${sourceName((i >> 2) as Source)} ${statusName((i & 3) as Status)}`, count);
    });
    const endpoints = new Map<string, number>();
    for (const endpoint of this.#registry.indexes()) {
      const status = reporter.status(endpoint);
      if (status === undefined || status === Status.removed) continue;
      const labels = `${this.#registry.kind(endpoint)} ${statusName(status)}`;
      endpoints.set(labels, (endpoints.get(labels) ?? 0) + 1);
    }
    const oldestMs = reporter.oldestPendingMs;
    const netlink = this.#netlink?.figures ?? { messages: 0, overruns: 0, malformed: 0, recoveredFlaps: 0 };
    return {
      accepted,
      ignored: new Map(Object.entries(this.#ignored)),
      pending: reporter.pending,
      oldestPendingSeconds: oldestMs === null ? 0 : (performance.now() - oldestMs) / 1000,
      endpoints,
      lanesInflight: reporter.lanesInflight,
      epoch: reporter.epoch,
      etcdUp: reporter.etcdUp,
      txnRate: reporter.rate,
      netlink,
      frames: new Map(Object.entries(this.#frames).map(([result, count]) => [`felix ${result}`, count])),
      sourcesInSync: new Map([
        ...(this.#netlink === null ? [] : [['netlink', this.#netlink.inSync] as const]),
        ...(this.#feed === null ? [] : [['felix', this.#feed.inSync] as const]),
      ]),
      journalBytes: this.#journal?.bytes ?? 0,
      journalAccepting: this.#journal?.accepting ?? true,
      workersReplaced: this.#pool.replaced,
    };
  }

  #about(): object {
    const { settings, connection, version } = this.#options;
    const { reporter } = this.#driver;
    return {
      version,
      host: settings.host,
      region: settings.region ?? 'none',
      etcd: connection.endpoints.join(', '),
      epoch: reporter.epoch,
      endpoints: this.#registry.size,
      pending: reporter.pending,
      committed: this.#metrics.committed,
    };
  }
}
