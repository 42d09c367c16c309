/** What a running daemon can be asked: its metrics' readings, its health, and what the admin socket tells. */
import type { SettingValues } from '../../config/settings.js';
import type { EndpointId } from '../../endpoints/id.js';
import type { EndpointRegistry } from '../../endpoints/registry.js';
import { Status, statusName } from '../../endpoints/status.js';
import type { Journal } from '../../journal/journal.js';
import type { LaneReport } from '../../reporter/queues.js';
import { type Health, judge } from '../../telemetry/health.js';
import type { Metrics, Readings } from '../../telemetry/metrics.js';
import type { Driver } from '../driver.js';
import type { EtcdAccess } from '../etcd/access.js';
import type { OwnKeys } from '../etcd/own-keys.js';
import { listStatuses } from '../etcd/statuses.js';
import type { Intake } from '../intake/intake.js';
import type { Sources } from '../intake/sources.js';

export interface FiguresOptions {
  readonly version: string;
  readonly settings: () => SettingValues;
  readonly etcd: EtcdAccess;
  readonly driver: Driver;
  readonly registry: EndpointRegistry;
  readonly intake: Intake;
  readonly sources: Sources;
  readonly ownKeys: OwnKeys;
  readonly metrics: Metrics;
  /** Null before it is open. */
  readonly journal: () => Journal | null;
  readonly stopping: () => boolean;
}

/** `flapd status --json`. */
export interface StatusReport {
  readonly version: string;
  readonly pid: number;
  readonly uptimeSeconds: number;
  readonly host: string;
  readonly region: string | null;
  readonly health: Health;
  readonly etcd: { readonly endpoints: readonly string[]; readonly up: boolean; readonly state: string };
  readonly epoch: number;
  readonly sources: Readonly<Record<string, boolean>>;
  /** The last heartbeat of a dataplane that reports to flapd; null: none came. */
  readonly dataplane: { readonly uptimeSeconds: number; readonly heardSecondsAgo: number } | null;
  readonly endpoints: Readonly<Record<string, number>>;
  readonly pending: number;
  readonly oldestPendingSeconds: number;
  readonly committed: number;
  /** Transactions a second allowed now; 0: no limit. */
  readonly rate: number;
  readonly lanes: readonly LaneReport[];
  readonly journal: {
    readonly directory: string | null;
    readonly bytes: number;
    readonly accepting: boolean;
  };
}

/** `flapd endpoints --json`: one endpoint. */
export interface EndpointReport {
  readonly key: string;
  readonly id: EndpointId;
  /** As flapd knows it; null: nothing is known, it is only in etcd. */
  readonly status: string | null;
  readonly pending: number;
  /** As etcd has it, where that was asked for: null for no such key, 'unreadable' for what is no status. */
  readonly inEtcd?: string | null;
}

export class Figures {
  readonly #options: FiguresOptions;

  constructor(options: FiguresOptions) {
    this.#options = options;
  }

  readings(): Readings {
    const { driver, etcd, intake, sources, ownKeys, journal } = this.#options;
    const { reporter } = driver;
    const notAfterMs = etcd.certificateNotAfterMs;
    return {
      accepted: intake.accepted,
      ignored: new Map(Object.entries(intake.ignored)),
      pending: reporter.queues.pending,
      oldestPendingSeconds: this.#oldestPendingSeconds(),
      endpoints: this.#endpointCounts(),
      lanesInflight: reporter.lanesInflight,
      epoch: reporter.epoch,
      etcdUp: reporter.etcdUp,
      txnRate: reporter.rate,
      netlink: sources.netlinkFigures,
      frames: sources.frames,
      sourcesInSync: sources.synced,
      journalBytes: journal()?.bytes ?? 0,
      journalAccepting: journal()?.accepting ?? true,
      journalCutBytes: journal()?.cutBytes ?? 0,
      workersReplaced: etcd.pool.replaced,
      foreignWrites: ownKeys.foreign,
      datastore: sources.datastoreFigures,
      certificateNotAfter: notAfterMs === null ? null : notAfterMs / 1000,
    };
  }

  health(): Health {
    const { driver, sources, journal, settings, stopping } = this.#options;
    const { reporter } = driver;
    const { denied } = reporter;
    return judge([
      { name: 'starting', ok: journal() !== null },
      {
        name: 'etcd',
        ok: reporter.etcdUp,
        reason: reporter.state === 'writing' ? 'does not answer' : `not claimed yet (${reporter.state})`,
      },
      { name: 'permission', ok: denied === null, reason: denied ?? '' },
      { name: 'sources', ok: sources.waitsFor === null, reason: sources.waitsFor ?? '' },
      { name: 'stopping', ok: !stopping() },
      {
        name: 'journal',
        ok: journal()?.accepting ?? true,
        degradesOnly: true,
        reason: 'full: feeders wait',
      },
      {
        name: 'queue',
        ok: reporter.queues.pending < settings()['queue.maxPending'],
        degradesOnly: true,
        reason: 'full: only final states are reported',
      },
    ]);
  }

  /** For the page at `/`: nothing that not everyone on the machine may read. */
  about(): object {
    const { version, settings, etcd, driver, registry, metrics } = this.#options;
    const { host, region } = settings();
    return {
      version,
      host,
      region: region ?? 'none',
      etcd: etcd.connection.endpoints.join(', '),
      epoch: driver.reporter.epoch,
      endpoints: registry.size,
      pending: driver.reporter.queues.pending,
      committed: metrics.committed,
    };
  }

  status(): StatusReport {
    const { version, settings, etcd, driver, sources, metrics, journal } = this.#options;
    const { reporter } = driver;
    const values = settings();
    const { dataplane } = sources;
    return {
      version,
      pid: process.pid,
      uptimeSeconds: Math.round(process.uptime()),
      host: values.host,
      region: values.region,
      health: this.health(),
      etcd: { endpoints: etcd.connection.endpoints, up: reporter.etcdUp, state: reporter.state },
      epoch: reporter.epoch,
      sources: Object.fromEntries(sources.synced),
      dataplane: dataplane && {
        uptimeSeconds: dataplane.uptimeSeconds,
        heardSecondsAgo: Math.round((performance.now() - dataplane.heardAtMs) / 1000),
      },
      endpoints: Object.fromEntries(this.#endpointCounts()),
      pending: reporter.queues.pending,
      oldestPendingSeconds: this.#oldestPendingSeconds(),
      committed: metrics.committed,
      rate: reporter.rate,
      lanes: reporter.queues.laneReports(),
      journal: {
        directory: values['journal.dir'],
        bytes: journal()?.bytes ?? 0,
        accepting: journal()?.accepting ?? true,
      },
    };
  }

  /** Rejects with etcd3's error, where etcd is asked. */
  async endpoints(withEtcd: boolean): Promise<{ readonly endpoints: readonly EndpointReport[] }> {
    const { etcd, registry, driver } = this.#options;
    const listed = withEtcd ? (await listStatuses(etcd.client, registry)).statuses : null;
    const endpoints = [...registry.indexes()].map((endpoint): EndpointReport => {
      const status = driver.reporter.queues.status(endpoint);
      const inEtcd = listed?.get(endpoint);
      return {
        key: registry.key(endpoint),
        id: registry.id(endpoint),
        status: status === undefined ? null : statusName(status),
        pending: driver.reporter.queues.pendingOf(endpoint),
        ...(listed !== null && {
          inEtcd: inEtcd === undefined ? null : inEtcd === null ? 'unreadable' : statusName(inEtcd),
        }),
      };
    });
    return { endpoints: endpoints.sort((a, b) => (a.key < b.key ? -1 : 1)) };
  }

  #oldestPendingSeconds(): number {
    const oldestMs = this.#options.driver.reporter.queues.oldestPendingMs;
    return oldestMs === null ? 0 : (performance.now() - oldestMs) / 1000;
  }

  /** By kind and status with a space between; removed ones are no more. */
  #endpointCounts(): Map<string, number> {
    const { registry, driver } = this.#options;
    const counts = new Map<string, number>();
    for (const endpoint of registry.indexes()) {
      const status = driver.reporter.queues.status(endpoint);
      if (status === undefined || status === Status.removed) continue;
      const labels = `${registry.kind(endpoint)} ${statusName(status)}`;
      counts.set(labels, (counts.get(labels) ?? 0) + 1);
    }
    return counts;
  }
}
