/**
 * The metrics of docs/design.md, section 12. What changes with every transition is a plain number here and becomes a
 * sample when it is asked for: the hot path pays an addition. No label grows with the endpoints.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isDeepStrictEqual } from 'node:util';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

const latencySeconds = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/**
 * node measures the time from one timer to the next: what is above this is the delay. At 10 ms, as prom-client has it by
 * itself, such a timer wakes an idle flapd a hundred times a second.
 */
const lagResolutionMs = 100;

/** What was observed under one label's value, since it was last asked for. */
class Tally {
  readonly counts: Float64Array;
  sum = 0;

  constructor(buckets: number) {
    this.counts = new Float64Array(buckets + 1);
  }
}

/** A histogram with one label or none that counts into arrays: prom-client's own costs microseconds for each observation. */
class QuickHistogram<Label extends string = never> {
  readonly #bounds: readonly number[];
  /** By the label's value; without a label, by ''. */
  readonly #tallies = new Map<string, Tally>();

  constructor(options: {
    name: string;
    help: string;
    buckets: number[];
    labelNames?: Label[];
    registers: Registry[];
  }) {
    this.#bounds = options.buckets;
    const histogram: Histogram<Label> = new Histogram({
      ...options,
      collect: (): void => this.#drainInto(histogram, options.labelNames?.[0]),
    });
  }

  observe(value: number, label = ''): void {
    const bounds = this.#bounds;
    let tally = this.#tallies.get(label);
    if (tally === undefined) {
      tally = new Tally(bounds.length);
      this.#tallies.set(label, tally);
    }
    let bucket = 0;
    while (bucket < bounds.length && value > bounds[bucket]!) bucket++;
    tally.counts[bucket]!++;
    tally.sum += value;
  }

  /** Moves what was counted into a histogram of prom-client's. */
  #drainInto(histogram: Histogram<Label>, labelName: Label | undefined): void {
    // It has no way in for whole buckets: its own hash map is filled, as its zero() and reset() do.
    const { hashMap } = histogram as unknown as {
      hashMap: Record<
        string,
        { labels: object; bucketValues: Record<string, number>; count: number; sum: number }
      >;
    };
    for (const [label, { counts, sum }] of this.#tallies) {
      const labels = (labelName === undefined ? {} : { [labelName]: label }) as Record<Label, string>;
      const find = () => Object.values(hashMap).find((entry) => isDeepStrictEqual(entry.labels, labels));
      if (find() === undefined) histogram.zero(labels);
      const entry = find()!;
      this.#bounds.forEach((bound, i) => {
        entry.bucketValues[String(bound)] = (entry.bucketValues[String(bound)] ?? 0) + counts[i]!;
      });
      entry.count += counts.reduce((all, count) => all + count, 0);
      entry.sum += sum;
    }
    this.#tallies.clear();
  }
}

/** What is read from the running daemon when somebody asks for the metrics. */
export interface Readings {
  readonly accepted: ReadonlyMap<string, number>;
  readonly ignored: ReadonlyMap<string, number>;
  readonly pending: number;
  readonly oldestPendingSeconds: number;
  readonly endpoints: ReadonlyMap<string, number>;
  readonly lanesInflight: number;
  readonly epoch: number;
  readonly etcdUp: boolean;
  readonly txnRate: number;
  readonly netlink: { messages: number; overruns: number; malformed: number; recoveredFlaps: number };
  readonly frames: ReadonlyMap<string, number>;
  readonly sourcesInSync: ReadonlyMap<string, boolean>;
  readonly journalBytes: number;
  readonly journalAccepting: boolean;
  readonly journalCutBytes: number;
  readonly workersReplaced: number;
  readonly foreignWrites: number;
  readonly datastore: { readonly damages: number; readonly unreadable: number };
  /** When the client's certificate for etcd expires, in Unix seconds; null: there is none. */
  readonly certificateNotAfter: number | null;
}

export class Metrics {
  readonly registry: Registry;
  /** Accepted to committed, in seconds. */
  readonly commitLatency: QuickHistogram;
  committed = 0;
  confirmations = 0;
  recovered = 0;
  readonly txnDuration: QuickHistogram<'result'>;
  readonly txnOps: QuickHistogram;
  readonly txnRetries: Counter<'reason'>;
  readonly rateLimitWait: QuickHistogram;
  readonly resyncRuns: Counter<'result'>;
  readonly resyncCorrections: Counter<'action'>;
  readonly journalSync: Histogram;
  readonly deadLetters: Counter;
  readonly claims: Counter<'reason'>;
  readonly reloads: Counter<'result'>;
  readonly #readNow: () => Readings;
  #readings: Readings | null = null;
  readonly #lag = monitorEventLoopDelay({ resolution: lagResolutionMs });

  constructor(read: () => Readings, version: string) {
    this.#readNow = read;
    this.registry = new Registry();
    const registers = [this.registry];
    this.commitLatency = new QuickHistogram({
      name: 'flapd_commit_latency_seconds',
      help: 'From accepted to committed',
      buckets: latencySeconds,
      registers,
    });
    this.txnDuration = new QuickHistogram({
      name: 'flapd_txn_duration_seconds',
      help: "Time of transactions at etcd, by etcd's answer",
      labelNames: ['result'],
      buckets: latencySeconds,
      registers,
    });
    this.txnOps = new QuickHistogram({
      name: 'flapd_txn_ops',
      help: 'Endpoints in a transaction',
      buckets: [0, 1, 2, 5, 10, 20, 50, 100, 127, 500],
      registers,
    });
    this.txnRetries = new Counter({
      name: 'flapd_txn_retries_total',
      help: 'Transactions sent again, by reason',
      labelNames: ['reason'],
      registers,
    });
    this.rateLimitWait = new QuickHistogram({
      name: 'flapd_rate_limit_wait_seconds',
      help: "Time that transactions were held back in a worker's queue",
      buckets: latencySeconds,
      registers,
    });
    this.resyncRuns = new Counter({
      name: 'flapd_resync_runs_total',
      help: 'Comparisons of etcd with the known states',
      labelNames: ['result'],
      registers,
    });
    this.resyncCorrections = new Counter({
      name: 'flapd_resync_corrections_total',
      help: 'Keys that had to be put right',
      labelNames: ['action'],
      registers,
    });
    this.journalSync = new Histogram({
      name: 'flapd_journal_fsync_seconds',
      help: 'Time of fdatasync on the journal',
      buckets: latencySeconds,
      registers,
    });
    this.deadLetters = new Counter({
      name: 'flapd_dead_letters_total',
      help: 'Transitions that etcd would not take',
      registers,
    });
    this.claims = new Counter({
      name: 'flapd_claims_total',
      help: 'Claims taken, by reason',
      labelNames: ['reason'],
      registers,
    });
    this.reloads = new Counter({
      name: 'flapd_config_reloads_total',
      help: 'Reloads of the configuration (SIGHUP)',
      labelNames: ['result'],
      registers,
    });
    new Gauge({
      name: 'flapd_build_info',
      help: 'Always 1; the labels say what is running',
      labelNames: ['version', 'node'],
      registers,
    }).set({ version, node: process.version }, 1);
    this.#beginAtZero();
    this.#defineReadings();
    this.#lag.enable();
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: 1000 });
  }

  /** Prometheus sees an increase only from a value that was there before: an alert would miss the first time. */
  #beginAtZero(): void {
    for (const result of ['ok', 'partly', 'refused']) this.reloads.inc({ result }, 0);
    for (const result of ['clean', 'corrected', 'stale', 'failed']) this.resyncRuns.inc({ result }, 0);
    for (const reason of ['start', 'restored']) this.claims.inc({ reason }, 0);
  }

  close(): void {
    this.#lag.disable();
  }

  /** One reading serves all metrics of a scrape, which are collected in one go: it looks at each endpoint. */
  #read(): Readings {
    if (this.#readings === null) {
      this.#readings = this.#readNow();
      queueMicrotask(() => {
        this.#readings = null;
      });
    }
    return this.#readings;
  }

  #defineReadings(): void {
    this.#counters(
      'flapd_transitions_accepted_total',
      'Transitions accepted',
      ['source', 'status'],
      (r) => r.accepted,
    );
    this.#counters(
      'flapd_transitions_ignored_total',
      'Observations that made no transition',
      ['reason'],
      (r) => r.ignored,
    );
    this.#counters(
      'flapd_feed_frames_total',
      'Frames read from feeders',
      ['source', 'result'],
      (r) => r.frames,
    );
    this.#counter(
      'flapd_transitions_committed_total',
      'Transitions known to be in etcd',
      () => this.committed,
    );
    this.#counter(
      'flapd_confirmations_total',
      'Final values put once more for their reader',
      () => this.confirmations,
    );
    this.#counter(
      'flapd_recovered_commits_total',
      'Transactions whose answer was lost and that had been applied',
      () => this.recovered,
    );
    this.#counter('flapd_netlink_messages_total', 'Messages from the kernel', (r) => r.netlink.messages);
    this.#counter(
      'flapd_netlink_overruns_total',
      'Times that the kernel dropped messages, its socket buffer being full',
      (r) => r.netlink.overruns,
    );
    this.#counter(
      'flapd_netlink_malformed_total',
      'Messages that were damaged and skipped',
      (r) => r.netlink.malformed,
    );
    this.#counter(
      'flapd_carrier_flaps_recovered_total',
      'Carrier changes that the kernel merged, known from the counters alone',
      (r) => r.netlink.recoveredFlaps,
    );
    this.#counter(
      'flapd_workers_replaced_total',
      'Worker threads that had to be replaced',
      (r) => r.workersReplaced,
    );
    this.#counter(
      'flapd_foreign_writes_total',
      "Writes to this host's status keys that were not flapd's",
      (r) => r.foreignWrites,
    );
    this.#counter(
      'flapd_datastore_damages_total',
      "Revisions of Calico's resources that could not be read",
      (r) => r.datastore.damages,
    );
    this.#gauge(
      'flapd_datastore_unreadable',
      "Calico's resources that cannot be read at present: what they said before stays in force",
      (r) => r.datastore.unreadable,
    );
    this.#gauge(
      'flapd_etcd_certificate_not_after_seconds',
      "When the client's certificate for etcd expires, in Unix time; 0: there is none",
      (r) => r.certificateNotAfter ?? 0,
    );
    this.#gauge('flapd_pending_transitions', 'Transitions accepted and not committed', (r) => r.pending);
    this.#gauge(
      'flapd_oldest_pending_seconds',
      'Age of the oldest pending transition',
      (r) => r.oldestPendingSeconds,
    );
    this.#gauge('flapd_lane_inflight', 'Lanes with a transaction under way', (r) => r.lanesInflight);
    this.#gauge('flapd_epoch', 'Epoch of the claim; 0: not claimed', (r) => r.epoch);
    this.#gauge('flapd_etcd_up', 'Whether etcd took the last transaction', (r) => Number(r.etcdUp));
    this.#gauge('flapd_txn_rate', 'Transactions a second allowed now; 0: no limit', (r) => r.txnRate);
    this.#gauge('flapd_journal_bytes', 'Size of the journal', (r) => r.journalBytes);
    this.#gauge(
      'flapd_journal_cut_bytes',
      'Bytes of a torn tail (a power cut leaves one) that were cut at the start',
      (r) => r.journalCutBytes,
    );
    this.#gauge('flapd_journal_accepting', 'Whether the journal takes all that comes', (r) =>
      Number(r.journalAccepting),
    );
    this.#labelled(
      'flapd_endpoints',
      'Endpoints that are known, by kind and status',
      ['kind', 'status'],
      (r) => r.endpoints,
    );
    this.#labelled(
      'flapd_source_in_sync',
      'Whether a source has told all that exists',
      ['source'],
      (r) => r.sourcesInSync,
    );
    const lag = new Gauge({
      name: 'flapd_eventloop_lag_seconds',
      help: 'Delay of the main loop since the last scrape',
      labelNames: ['quantile'],
      registers: [this.registry],
      collect: () => {
        for (const quantile of [0.5, 0.99, 1]) {
          const measuredMs = this.#lag.percentile(quantile * 100) / 1e6;
          lag.set({ quantile: String(quantile) }, Math.max(0, measuredMs - lagResolutionMs) / 1000);
        }
        this.#lag.reset();
      },
    });
  }

  #counter(name: string, help: string, value: (readings: Readings) => number): void {
    const counter = new Counter({
      name,
      help,
      registers: [this.registry],
      collect: () => {
        counter.reset();
        counter.inc(value(this.#read()));
      },
    });
  }

  /** The map's keys are the labels' values with a space between. */
  #counters(
    name: string,
    help: string,
    labelNames: string[],
    values: (readings: Readings) => ReadonlyMap<string, number>,
  ): void {
    const counter = new Counter({
      name,
      help,
      labelNames,
      registers: [this.registry],
      collect: () => {
        counter.reset();
        for (const [labels, value] of values(this.#read())) counter.labels(...labels.split(' ')).inc(value);
      },
    });
  }

  #gauge(name: string, help: string, value: (readings: Readings) => number): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [this.registry],
      collect: (): void => gauge.set(value(this.#read())),
    });
  }

  #labelled(
    name: string,
    help: string,
    labelNames: string[],
    values: (readings: Readings) => ReadonlyMap<string, number | boolean>,
  ): void {
    const gauge = new Gauge({
      name,
      help,
      labelNames,
      registers: [this.registry],
      collect: () => {
        gauge.reset();
        for (const [labels, value] of values(this.#read()))
          gauge.labels(...labels.split(' ')).set(Number(value));
      },
    });
  }
}
