/**
 * One simulated host: all of the daemon that etcd can tell from a real one. The core, its driver, the claim and its watch,
 * resyncs, the watches of its own keys and of Calico's resources, the heartbeat: each is the daemon's own class with the
 * settings' defaults, on connections of its own. In place of netlink there is flap(); the journal is in memory, and the
 * worker threads are this thread (journal.ts, pool.ts).
 */
import { randomUUID } from 'node:crypto';
import type { SettingValues } from '../../src/config/settings.js';
import { connectionOf } from '../../src/daemon/connection.js';
import { Driver } from '../../src/daemon/driver.js';
import { EtcdAccess } from '../../src/daemon/etcd/access.js';
import { OwnKeys } from '../../src/daemon/etcd/own-keys.js';
import { ProcessStatus } from '../../src/daemon/etcd/process-status.js';
import { Resync } from '../../src/daemon/etcd/resync.js';
import { Tenure } from '../../src/daemon/etcd/tenure.js';
import { limitsOf } from '../../src/daemon/limits.js';
import { Saying } from '../../src/daemon/operate/saying.js';
import type { EndpointIndex } from '../../src/endpoints/id.js';
import { claimKey, cursorKey } from '../../src/endpoints/key.js';
import { EndpointRegistry } from '../../src/endpoints/registry.js';
import { Source, Status } from '../../src/endpoints/status.js';
import { TxnEncoder } from '../../src/etcd/encoding.js';
import { listPrefix } from '../../src/etcd/list.js';
import { watchPrefix } from '../../src/etcd/watch.js';
import { sackMax } from '../../src/reporter/cursor.js';
import type { ReporterLimits } from '../../src/reporter/reporter.js';
import { DatastoreSource } from '../../src/sources/datastore/datastore.js';
import type { Log } from '../../src/telemetry/log.js';
import { benchEndpoint } from '../macro/endpoint.js';
import type { HostJournal } from './journal.js';
import { SameThreadPool } from './pool.js';
import { type Overrides, settingsWith } from './settings.js';

export interface HostOptions {
  readonly name: string;
  readonly etcd: string;
  readonly endpoints: number;
  readonly overrides: Overrides;
  readonly journal: HostJournal;
  readonly log: Log;
}

/** As in the daemon. */
const claimGraceMs = 2000;
const listAgainMsMax = 5000;

/** What happened since the last time it was asked. */
export class Account {
  /** When each transaction went, a retry as well. */
  readonly sentAtMs: number[] = [];
  /** Accepted to committed, of transitions. */
  readonly latenciesMs: number[] = [];
  committed = 0;
  overloads = 0;
  readonly retries: Record<string, number> = {};
  resyncs = 0;
  corrections = 0;
  rateMin = Number.POSITIVE_INFINITY;
}

export class Host {
  account = new Account();
  /** Why it stopped for good; null: it has not. */
  fenced: string | null = null;
  readonly #options: HostOptions;
  readonly #settings: SettingValues;
  readonly #registry: EndpointRegistry;
  readonly #etcd: EtcdAccess;
  readonly #driver: Driver;
  readonly #tenure: Tenure;
  readonly #resync: Resync;
  readonly #ownKeys: OwnKeys;
  readonly #processStatus: ProcessStatus;
  readonly #datastore: DatastoreSource;
  readonly #endpoints: EndpointIndex[] = [];
  #claimed: (() => void) | null = null;
  #stopping = false;
  #resyncs = 0;

  constructor(options: HostOptions) {
    const { name, etcd, log, journal, overrides } = options;
    const settings = settingsWith(overrides, { host: name, etcd });
    const where = { host: name, region: settings.region };
    const saying = new Saying(log);
    const limits = limitsOf(settings);
    this.#options = options;
    this.#settings = settings;
    this.#registry = new EndpointRegistry(where, (endpoint, key) => {
      this.#driver.introduce(endpoint);
      journal.nameEndpoint(endpoint, key);
    });
    const registry = this.#registry;
    const connection = connectionOf(settings);
    const pool = new SameThreadPool(connection, settings.lanes, limits.limits, (nowMs) =>
      this.account.sentAtMs.push(nowMs),
    );
    this.#etcd = new EtcdAccess(connection, pool, log, saying);
    const access = this.#etcd;
    this.#driver = this.#newDriver(limits);
    const driver = this.#driver;
    this.#tenure = new Tenure({ driver, registry, etcd: access, log, saying });
    this.#datastore = new DatastoreSource({
      where,
      list: (prefix) => listPrefix(access.client, prefix),
      watch: (prefix, watching) => watchPrefix(() => access.connection, prefix, watching),
      nowUs: () => Date.now() * 1000,
      log,
      events: {
        defined: () => undefined,
        undefined: () => undefined,
        damaged: () => undefined,
        repaired: () => undefined,
        failing: () => undefined,
        following: () => undefined,
        inSync: () => this.#firstSight(),
      },
    });
    this.#resync = new Resync({
      driver,
      registry,
      client: () => access.client,
      intervalMs: () => settings['resync.interval'],
      inSync: () => this.#datastore.inSync,
      undecided: () => new Set(),
      onResult: (result, { put, repaired, deleted }) => {
        if (result === 'clean' || result === 'corrected') this.#resyncs++;
        this.account.resyncs++;
        this.account.corrections += put + repaired + deleted;
      },
      onError: () => undefined,
    });
    this.#ownKeys = new OwnKeys({
      where,
      reachable: () => access.connection,
      probe: () => driver.probe(),
      onForeign: () => this.#resync.now(),
      saying,
    });
    this.#processStatus = new ProcessStatus({
      where,
      client: () => access.client,
      claim: () => driver.reporter.claim,
      intervalMs: settings['reporting.processStatus'] ? settings['reporting.interval'] : 0,
      ttlMs: settings['reporting.ttl'],
      deadlineMs: settings['etcd.deadline'],
      saying,
    });
  }

  /** As a machine that boots. Resolves when its sources are open. */
  async start(): Promise<void> {
    const { journal } = this.#options;
    journal.open({
      durable: (seq) => this.#driver.durable(seq),
      accepting: () => undefined,
      failed: () => undefined,
      synced: () => undefined,
    });
    this.#driver.recover(journal);
    await this.#etcd.start();
    const claimed = new Promise<void>((resolve) => {
      this.#claimed = resolve;
    });
    this.#driver.start();
    await Promise.race([claimed, new Promise((resolve) => setTimeout(resolve, claimGraceMs).unref())]);
    if (this.#stopping) return;
    await this.#datastore.start();
    this.#resync.now(); // as when the interfaces have been read
  }

  /** The endpoint's status becomes the other one. */
  flap(n: number): void {
    const endpoint = this.#endpoints[n];
    if (endpoint === undefined) return; // it has not been seen yet
    const last = this.#options.journal.transitions[endpoint]!.at(-1);
    this.#observe(endpoint, last === Status.up ? Status.down : Status.up);
  }

  get pending(): number {
    return this.#driver.reporter.queues.pending;
  }

  /** How long its oldest transition has been pending; 0: none is. */
  oldestPendingMs(nowMs: number): number {
    return Math.max(0, nowMs - (this.#driver.reporter.queues.oldestPendingMs ?? nowMs));
  }

  /** It writes, has told all that it sees, and has compared it with etcd. */
  get ready(): boolean {
    return this.#driver.reporter.state === 'writing' && this.#endpoints.length > 0 && this.#resyncs > 0;
  }

  get etcdUp(): boolean {
    return this.#driver.reporter.etcdUp;
  }

  /** Transactions a second that it allows itself now. */
  get rate(): number {
    return this.#driver.reporter.rate;
  }

  get epoch(): number {
    return this.#driver.reporter.epoch;
  }

  get foreign(): number {
    return this.#ownKeys.foreign;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.#processStatus.stop();
    await this.#datastore.stop();
    this.#resync.stop();
    this.#driver.stop();
    this.#tenure.end();
    this.#ownKeys.stop();
    await this.#etcd.close();
  }

  #firstSight(): void {
    for (let n = 0; n < this.#options.endpoints; n++) {
      const endpoint = this.#registry.intern(benchEndpoint(n));
      this.#endpoints[n] = endpoint;
      const before = this.#options.journal.transitions[endpoint]!.at(-1);
      this.#observe(endpoint, before ?? Status.up);
    }
    this.#resync.now();
  }

  #observe(endpoint: EndpointIndex, status: Status): void {
    this.#driver.observe(endpoint, status, Source.netlink, Date.now() * 1000);
  }

  #newDriver(limits: ReporterLimits): Driver {
    const { where } = this.#registry;
    const settings = this.#settings;
    const keys = { claimKey: claimKey(where), cursorKey: (lane: number) => cursorKey(where, lane) };
    return new Driver({
      reporter: {
        ...limits,
        lanes: settings.lanes,
        sackMax,
        pendingMax: settings['queue.maxPending'],
        startJitterMs: settings['limits.txnsPerSecond'] === 0 ? 0 : 200, // as in the daemon
      },
      registry: this.#registry,
      encoder: new TxnEncoder({ ...keys, statusKeyOf: (endpoint) => this.#registry.key(endpoint) }),
      pool: this.#etcd.pool,
      identity: {
        ...keys,
        instance: randomUUID(),
        machine: where.host,
        startedAt: new Date().toISOString(),
        take: false,
      },
      client: () => this.#etcd.client,
      events: {
        accepted: () => undefined,
        committed: ({ seqs, acceptedAtMs }, nowMs) => {
          for (let i = 0; i < seqs.length; i++) {
            if (Number.isNaN(seqs[i])) continue;
            this.account.committed++;
            this.account.latenciesMs.push(nowMs - acceptedAtMs[i]!);
          }
        },
        txn: (answer) => {
          if (answer === 'overloaded' || answer === 'timeout' || answer === 'noSpace')
            this.account.overloads++;
        },
        retry: (reason) => {
          this.account.retries[reason] = (this.account.retries[reason] ?? 0) + 1;
        },
        deadLetter: () => undefined,
        claimed: (_epoch, revision) => void this.#onClaimed(revision),
        fenced: (by) => {
          this.fenced = by;
        },
        resync: (reason) => {
          if (reason === 'restored')
            setTimeout(() => this.#datastore.listAgain(), listAgainMsMax * Math.random()).unref();
          this.#resync.now();
        },
        durable: () => undefined,
        polled: () => {
          this.account.rateMin = Math.min(this.account.rateMin, this.#driver.reporter.rate);
        },
      },
    });
  }

  async #onClaimed(revision: number): Promise<void> {
    this.#processStatus.start();
    this.#ownKeys.start(revision + 1);
    const seeding = this.#driver.reporter.state === 'seeding';
    await this.#tenure.begin(revision);
    if (!seeding) return;
    this.#claimed?.();
    this.#resync.now();
  }
}
