/**
 * flapd, assembled: sources, journal, core, workers, telemetry, in the way of the data (docs/design.md, section 3). It
 * knows how they are wired and in which order they start and stop; what they do is theirs.
 */
import { randomUUID } from 'node:crypto';
import type { SettingValues } from '../config/settings.js';
import { claimKey, cursorKey } from '../endpoints/key.js';
import { EndpointRegistry } from '../endpoints/registry.js';
import { TxnEncoder } from '../etcd/encoding.js';
import { listPrefix } from '../etcd/list.js';
import { thisMachine } from '../etcd/machine.js';
import { WorkerPool } from '../etcd/pool.js';
import { watchPrefix } from '../etcd/watch.js';
import type { Journal, JournalListener } from '../journal/journal.js';
import { sackMax } from '../reporter/cursor.js';
import type { Health } from '../telemetry/health.js';
import { HttpServer } from '../telemetry/http.js';
import type { Log } from '../telemetry/log.js';
import { Metrics } from '../telemetry/metrics.js';
import { connectionOf } from './connection.js';
import { Driver } from './driver.js';
import { EtcdAccess } from './etcd/access.js';
import { OwnKeys } from './etcd/own-keys.js';
import { ProcessStatus } from './etcd/process-status.js';
import { Resync } from './etcd/resync.js';
import { Tenure } from './etcd/tenure.js';
import { BootMark } from './intake/boot.js';
import { Intake } from './intake/intake.js';
import { Sources } from './intake/sources.js';
import { Throttle } from './intake/throttle.js';
import { limitsOf } from './limits.js';
import { AdminSocket } from './operate/admin.js';
import { tellOf } from './operate/driver-events.js';
import { Figures } from './operate/figures.js';
import { reload } from './operate/reload.js';
import { Saying } from './operate/saying.js';

export interface DaemonOptions {
  readonly settings: SettingValues;
  /** Of an etcd of its own, instead of those of the settings. */
  readonly etcdEndpoints?: readonly string[];
  readonly openJournal: (listener: JournalListener) => Promise<Journal>;
  readonly version: string;
  readonly log: Log;
  /** It cannot go on; see exit.ts for the codes. */
  readonly onFatal: (code: 'fenced' | 'bug' | 'journal', why: string) => void;
}

/** How long the sources wait for the claim, so that what etcd has is known before the first observation. */
const claimGraceMs = 2000;
const listAgainMsMax = 5000;

export class Daemon {
  readonly #options: DaemonOptions;
  readonly #log: Log;
  readonly #saying: Saying;
  readonly #registry: EndpointRegistry;
  readonly #etcd: EtcdAccess;
  readonly #encoder: TxnEncoder;
  readonly #driver: Driver;
  readonly #tenure: Tenure;
  readonly #resync: Resync;
  readonly #ownKeys: OwnKeys;
  readonly #intake: Intake;
  readonly #sources: Sources;
  readonly #throttle = new Throttle();
  readonly #metrics: Metrics;
  readonly #figures: Figures;
  readonly #http: HttpServer | null;
  readonly #admin: AdminSocket | null;
  readonly #boot: BootMark | null;
  #settings: SettingValues;
  #processStatus: ProcessStatus;
  #journal: Journal | null = null;
  #claims = 0;
  #claimed: (() => void) | null = null;
  #durableSeq = 0;
  #stopping = false;

  constructor(options: DaemonOptions) {
    const { settings, log } = options;
    const where = { host: settings.host, region: settings.region };
    this.#options = options;
    this.#settings = settings;
    this.#log = log;
    this.#saying = new Saying(log);
    this.#boot = settings['journal.dir'] === null ? null : new BootMark(settings['journal.dir']);
    this.#registry = new EndpointRegistry(where, (endpoint, key) => {
      this.#driver.introduce(endpoint);
      this.#journal?.nameEndpoint(endpoint, key);
    });
    this.#etcd = new EtcdAccess(this.#connection(settings), this.#newPool(), log, this.#saying);
    this.#encoder = new TxnEncoder({
      claimKey: claimKey(where),
      cursorKey: (lane) => cursorKey(where, lane),
      statusKeyOf: (endpoint) => this.#registry.key(endpoint),
    });
    this.#driver = this.#newDriver();
    const driver = this.#driver;
    const registry = this.#registry;
    this.#tenure = new Tenure({ driver, registry, etcd: this.#etcd, log, saying: this.#saying });
    this.#resync = this.#newResync();
    this.#ownKeys = new OwnKeys({
      where,
      reachable: () => this.#etcd.connection,
      probe: () => this.#driver.probe(),
      onForeign: () => this.#resync.now(),
      saying: this.#saying,
    });
    this.#processStatus = this.#newProcessStatus();
    this.#intake = new Intake({
      driver,
      registry,
      endpointsMax: settings['endpoints.max'],
      log,
      saying: this.#saying,
    });
    this.#sources = new Sources({
      settings,
      registry,
      intake: this.#intake,
      log,
      list: (prefix) => listPrefix(this.#etcd.client, prefix),
      watch: (prefix, options) => watchPrefix(() => this.#etcd.connection, prefix, options),
      saying: this.#saying,
      onInSync: () => this.#resync.now(),
      onInterfacesRead: () => void this.#leaveBootMark(),
      onCounters: (counters) => this.#journal?.counters(counters),
    });
    this.#metrics = new Metrics(() => this.#figures.readings(), options.version);
    this.#figures = new Figures({
      version: options.version,
      settings: () => this.#settings,
      etcd: this.#etcd,
      driver,
      registry,
      intake: this.#intake,
      sources: this.#sources,
      ownKeys: this.#ownKeys,
      metrics: this.#metrics,
      journal: () => this.#journal,
      stopping: () => this.#stopping,
    });
    this.#http = this.#newHttp();
    this.#admin = this.#newAdmin();
  }

  get pending(): number {
    return this.#driver.reporter.queues.pending;
  }

  get httpPort(): number | null {
    return this.#http?.port ?? null;
  }

  /** As they are now. */
  get settings(): SettingValues {
    return this.#settings;
  }

  async start(): Promise<void> {
    const { log } = this.#options;
    if (thisMachine().from === 'hostname') {
      log.warn(
        {},
        'this machine has no machine id: another one with the same host name could not be told from it',
      );
    }
    // While they load, the journal is read. Where something else fails first, that is what is to be said.
    const workers = this.#etcd.start();
    workers.catch(() => undefined);
    await this.#http?.start();
    if (this.#http?.listening)
      log.info({ port: this.#http.port }, `metrics and health on http://127.0.0.1:${this.#http.port}/`);
    await this.#admin?.start();
    this.#journal = await this.#options.openJournal(this.#journalListener());
    this.#driver.recover(this.#journal);
    if (this.pending > 0)
      log.info({ pending: this.pending }, 'transitions left in the journal are pending again');
    await workers;
    const claimed = new Promise<void>((resolve) => {
      this.#claimed = resolve;
    });
    this.#driver.start();
    // With etcd there, what it has is known before the first thing is seen. Without it, nothing waits: see Reporter.seed().
    await Promise.race([claimed, new Promise((resolve) => setTimeout(resolve, claimGraceMs).unref())]);
    if (this.#stopping) return;
    if (this.#boot?.same) {
      for (const counters of this.#journal.recovered.counters) this.#sources.remember(counters);
    }
    await this.#sources.start();
  }

  /** Takes over what may change of these settings. */
  async reconfigure(settings: SettingValues): Promise<void> {
    const { values, changed, needRestart } = reload(this.#settings, settings);
    const before = this.#settings;
    this.#settings = values;
    this.#log.level = values['log.level'];
    this.#driver.reconfigure(limitsOf(values));
    if (changed.some((name) => name.startsWith('reporting.'))) {
      this.#processStatus.stop();
      this.#processStatus = this.#newProcessStatus(this.#processStatus);
      if (this.#claims > 0) this.#processStatus.start();
    }
    // Files may hold something else under the same name.
    const connection = changed.some((name) => name.startsWith('etcd.'))
      ? this.#connection(values)
      : this.#etcd.connection;
    const renewed = await this.#etcd.renew(connection);
    if (!renewed) {
      const old = Object.fromEntries(
        changed.filter((name) => name.startsWith('etcd.')).map((name) => [name, before[name]]),
      );
      this.#settings = Object.freeze({ ...values, ...old });
    }
    this.#metrics.reloads.inc({ result: renewed ? 'ok' : 'partly' });
    this.#log.info(
      { changed, ...(needRestart.length > 0 && { needRestart }) },
      needRestart.length > 0
        ? 'the configuration was loaded anew; some of what differs waits for the next start'
        : 'the configuration was loaded anew',
    );
  }

  /** A configuration that is no use: everything stays as it is. */
  reloadRefused(why: string): void {
    this.#metrics.reloads.inc({ result: 'refused' });
    this.#log.error({ why }, 'the new configuration is refused; the old one stays in force');
  }

  /** Reads no more, writes what is pending within so long, ends. Returns how much is left. */
  async stop(drainMs: number): Promise<number> {
    await this.#stopReading();
    const untilMs = performance.now() + drainMs;
    while (this.pending > 0 && performance.now() < untilMs)
      await new Promise((resolve) => setTimeout(resolve, 10));
    return this.#end();
  }

  /** Ends at once. Returns how much is left. */
  async abort(): Promise<number> {
    await this.#stopReading();
    return this.#end();
  }

  async #stopReading(): Promise<void> {
    this.#stopping = true;
    this.#processStatus.stop();
    await this.#sources.stop();
    this.#resync.stop();
  }

  async #end(): Promise<number> {
    const left = this.pending;
    this.#driver.stop();
    this.#tenure.end();
    this.#ownKeys.stop();
    await this.#etcd.close();
    await this.#journal?.close();
    await this.#admin?.stop();
    await this.#http?.stop();
    this.#metrics.close();
    return left;
  }

  health(): Health {
    return this.#figures.health();
  }

  #connection(settings: SettingValues): ReturnType<typeof connectionOf> {
    const { etcdEndpoints } = this.#options;
    return { ...connectionOf(settings), ...(etcdEndpoints !== undefined && { endpoints: etcdEndpoints }) };
  }

  #newPool(): WorkerPool {
    const { settings, log, onFatal } = this.#options;
    return new WorkerPool({
      connection: this.#connection(settings),
      lanes: settings.lanes,
      ...(settings.workers > 0 ? { workers: settings.workers } : {}),
      rate: limitsOf(settings).limits,
      onFatal: (error) => onFatal('bug', error.message),
      onReplaced: (why) =>
        log.warn({ why }, 'a worker thread was replaced; what it had in hand is sent again'),
    });
  }

  #newDriver(): Driver {
    const { settings, log, onFatal } = this.#options;
    const { where } = this.#registry;
    const told = tellOf(() => this.#metrics, this.#registry, log, this.#saying);
    return new Driver({
      reporter: {
        ...limitsOf(settings),
        lanes: settings.lanes,
        sackMax,
        pendingMax: settings['queue.maxPending'],
        startJitterMs: settings['limits.txnsPerSecond'] === 0 ? 0 : 200,
      },
      registry: this.#registry,
      encoder: this.#encoder,
      pool: this.#etcd.pool,
      identity: {
        claimKey: claimKey(where),
        cursorKey: (lane: number) => cursorKey(where, lane),
        instance: randomUUID(),
        machine: thisMachine().name,
        startedAt: new Date().toISOString(),
        take: false, // flapd claim --take is for that
      },
      client: () => this.#etcd.client,
      events: {
        ...told,
        accepted: (source, status) => this.#intake.count(source, status),
        claimed: (epoch, revision) => void this.#onClaimed(epoch, revision),
        fenced: (by) => onFatal('fenced', by),
        resync: (reason) => this.#onResyncDue(reason),
        durable: (seq) => {
          this.#durableSeq = seq;
          this.#sources.durable(seq);
        },
        polled: () => this.#throttleFeeders(),
      },
    });
  }

  #newResync(): Resync {
    return new Resync({
      driver: this.#driver,
      registry: this.#registry,
      client: () => this.#etcd.client,
      intervalMs: () => this.#settings['resync.interval'],
      inSync: () => this.#sources.inSync,
      undecided: () => this.#sources.undecided,
      onResult: (result, corrections) => {
        this.#metrics.resyncRuns.inc({ result });
        for (const [action, count] of Object.entries(corrections))
          if (count > 0) this.#metrics.resyncCorrections.inc({ action }, count);
        if (result === 'corrected')
          this.#log.info(corrections, 'resync: etcd differed from what is known and is put right');
        if (result !== 'failed') this.#saying.over('resync');
        if (result === 'clean') this.#saying.over('foreign writes');
        this.#forgetGone();
      },
      onError: (error) =>
        this.#saying.once(
          'resync',
          { error: String(error) },
          "resync: etcd's keys could not be listed; trying again",
        ),
    });
  }

  #newProcessStatus(before?: ProcessStatus): ProcessStatus {
    const settings = this.#settings;
    return new ProcessStatus({
      where: this.#registry.where,
      client: () => this.#etcd.client,
      claim: () => this.#driver.reporter.claim,
      intervalMs: settings['reporting.processStatus'] ? settings['reporting.interval'] : 0,
      ttlMs: settings['reporting.ttl'],
      deadlineMs: settings['etcd.deadline'],
      saying: this.#saying,
      ...(before !== undefined && { before }),
    });
  }

  #newHttp(): HttpServer | null {
    const { settings, log } = this.#options;
    if (settings.http === null) return null;
    return new HttpServer({
      ...settings.http,
      required: settings.httpRequired,
      registry: this.#metrics.registry,
      health: () => this.health(),
      about: () => this.#figures.about(),
      log,
    });
  }

  #newAdmin(): AdminSocket | null {
    const { settings, log } = this.#options;
    if (settings['admin.socket'] === null) return null;
    return new AdminSocket({
      socketPath: settings['admin.socket'],
      status: () => this.#figures.status(),
      endpoints: (withEtcd) => this.#figures.endpoints(withEtcd),
      log,
    });
  }

  async #onClaimed(epoch: number, revision: number): Promise<void> {
    this.#metrics.claims.inc({ reason: this.#claims++ === 0 ? 'start' : 'restored' });
    this.#log.info({ epoch, host: this.#settings.host }, 'claimed: this flapd writes for the host');
    this.#processStatus.start();
    if (this.#settings['limits.txnsPerSecond'] > 0) this.#ownKeys.start(revision + 1);
    const seeded = this.#driver.reporter.state === 'seeding';
    await this.#tenure.begin(revision);
    if (!seeded) return;
    this.#claimed?.();
    this.#resync.now();
  }

  #onResyncDue(reason: string): void {
    if (reason === 'restored') {
      this.#log.warn({}, 'etcd was set back or emptied: comparing all that is known with it');
      // All hosts of this etcd notice at about the same time.
      setTimeout(() => this.#sources.listAgain(), listAgainMsMax * Math.random()).unref();
    } else if (this.#settings['journal.dir'] !== null) {
      this.#log.warn(
        {},
        'the cursors in etcd are ahead of the journal (lost, or an old copy?): going on above them',
      );
    }
    this.#resync.now();
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

  /** Numbers of endpoints that are long gone go to new ones: what is kept must not grow with all that ever lived. */
  #forgetGone(): void {
    const nowMs = performance.now();
    let forgotten = 0;
    for (const endpoint of [...this.#registry.indexes()]) {
      if (!this.#driver.reporter.queues.forgettable(endpoint, nowMs)) continue;
      this.#driver.reporter.queues.forget(endpoint);
      this.#encoder.forget(endpoint);
      this.#registry.forget(endpoint);
      forgotten++;
    }
    if (forgotten > 0) this.#sources.forgetNumbers();
  }

  #journalListener(): JournalListener {
    const { log, onFatal } = this.#options;
    return {
      durable: (seq) => this.#driver.durable(seq),
      accepting: (accepting, why) => {
        if (accepting) log.info({}, 'the journal takes all that comes again');
        else log.error({ why }, 'the journal is full: feeders wait, what interfaces do is kept in memory');
        this.#throttleFeeders();
      },
      failed: (error) => onFatal('journal', error.message),
      synced: (seconds) => this.#metrics.journalSync.observe(seconds),
    };
  }

  #throttleFeeders(): void {
    if (this.#stopping) return;
    const { reporter } = this.#driver;
    const verdict = this.#throttle.judge({
      pending: reporter.queues.pending,
      pendingMax: this.#options.settings['queue.maxPending'],
      unsynced: reporter.queues.lastSeq - Math.max(this.#durableSeq, reporter.queues.firstSeq - 1),
      accepting: this.#journal?.accepting ?? true,
    });
    if (verdict === 'pause') this.#sources.pause();
    else if (verdict === 'resume') this.#sources.resume();
  }
}
