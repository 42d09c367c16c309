/** What is done to the fleet, one after another, and what is measured meanwhile. */
import { setTimeout as delay } from 'node:timers/promises';
import type { SettingValues } from '../../src/config/settings.js';
import { EmbeddedEtcd } from '../../src/etcd/embedded.js';
import type { HostReport } from './hosts.js';
import { Meter, type Requests, requestsOf } from './meter.js';
import { Fleet, type FleetOptions, type Worst } from './processes.js';
import { settingsWith } from './settings.js';

export interface PhasesOptions extends Omit<FleetOptions, 'etcd'> {
  readonly etcdBinary: string;
  readonly dataDir: string;
  /** How long each thing goes on, in seconds. */
  readonly calmSeconds: number;
  readonly stormSeconds: number;
  readonly idleSeconds: number;
  readonly downSeconds: number;
  /** Transitions a second of each host. */
  readonly stormPerSecond: number;
  readonly calmPerSecond: number;
  readonly progress: (text: string) => void;
}

export interface Latency {
  readonly transitions: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface Phase {
  readonly name: 'cold start' | 'warm start' | 'etcd restart' | 'calm' | 'storm' | 'idle';
  readonly seconds: number;
  /** From what the phase is about (all start, etcd is back, the storm ends) to quiet; null: not asked. */
  readonly quietSeconds: number | null;
  readonly requests: Requests;
  /** Accepted to committed. */
  readonly calm: Latency;
  readonly storming: Latency;
  readonly worst: Worst;
  readonly txns: number;
  /** The host with the most in any window of a second. */
  readonly hostTxnsPerSecondMax: number;
  /** Of the hosts that storm: the fewest and the most that were committed. */
  readonly stormCommitted: readonly [number, number];
  readonly committed: number;
  readonly corrections: number;
  readonly retries: Readonly<Record<string, number>>;
  /** The lowest rate that overload signals have left to any host. */
  readonly rateMin: number;
  readonly fenced: number;
  readonly foreign: number;
}

/** What every host holds at etcd, at rest. */
export interface AtRest {
  readonly watches: number;
  readonly connections: number;
  readonly etcdRssMiB: number;
}

export interface Measured {
  readonly phases: readonly Phase[];
  readonly atRest: AtRest;
  /** Whether each wait for quiet has ended with quiet. */
  readonly quiet: boolean;
}

const patienceSeconds = 180;
/** Stragglers (a first heartbeat, the list after a list) belong to the start. */
const lingerSeconds = 3;
const oldMs = 500;

/** Everything, to the end: hosts stopped, etcd still there for whoever reads its history. */
export async function measure(
  options: PhasesOptions,
  andThen: (etcd: string, fleet: Fleet) => Promise<void>,
): Promise<Measured> {
  const binary = options.etcdBinary;
  const etcd = await EmbeddedEtcd.start({ binary, dataDir: options.dataDir, clientPort: 0 });
  const run = new Run(options, etcd);
  try {
    const measured = await run.all();
    await andThen(etcd.endpoint, run.fleet);
    return measured;
  } finally {
    await run.end();
  }
}

class Run {
  readonly fleet: Fleet;
  readonly #options: PhasesOptions;
  readonly #meter: Meter;
  #etcd: EmbeddedEtcd;
  readonly #settings: SettingValues;
  #quiet = true;

  constructor(options: PhasesOptions, etcd: EmbeddedEtcd) {
    this.#options = options;
    this.#etcd = etcd;
    this.#settings = settingsWith(options.overrides, { host: 'any', etcd: etcd.endpoint });
    this.fleet = new Fleet({ ...options, etcd: etcd.endpoint });
    this.#meter = new Meter(etcd.endpoint, etcd.pid);
  }

  async all(): Promise<Measured> {
    const { hosts, idleSeconds, progress } = this.#options;
    await this.fleet.nextPulse();
    await this.#meter.take();
    const bare = this.#meter.last!;
    const phases: Phase[] = [];
    for (const [name, phase] of [
      ['all hosts start at once, etcd is empty', () => this.#start('cold start')],
      ['all hosts start at once, etcd has every status', () => this.#start('warm start')],
      ['gentle flaps on all hosts', () => this.#calm()],
      ['a storm on every tenth host', () => this.#storm()],
      ['etcd is killed, and is back', () => this.#restart()],
      ['rest', () => this.#wait('idle', idleSeconds)],
    ] as const) {
      progress(`${name} …`);
      const done = await phase();
      progress(
        `  ${done.requests.total} requests, at most ${Math.round(done.requests.perSecondPeak)}/s` +
          (done.quietSeconds === null ? '' : `; quiet after ${done.quietSeconds.toFixed(1)} s`),
      );
      phases.push(done);
    }
    const rest = this.#meter.last!;
    await this.fleet.tell({ kind: 'stop' });
    const atRest = {
      watches: (rest.watchers - bare.watchers) / hosts,
      connections: (rest.fds - bare.fds) / hosts,
      etcdRssMiB: rest.rssMiB,
    };
    return { phases, atRest, quiet: this.#quiet };
  }

  async end(): Promise<void> {
    await this.#meter.end();
    await this.fleet.end();
    await this.#etcd.crash(); // its data is thrown away
  }

  async #start(name: Phase['name']): Promise<Phase> {
    const beganAtMs = await this.#begin();
    await this.fleet.tell({ kind: 'start' });
    const quietSeconds = await this.#until(
      () => this.fleet.ready === this.fleet.hosts && this.fleet.pending === 0,
      beganAtMs,
    );
    await delay(lingerSeconds * 1000);
    return this.#over(name, beganAtMs, quietSeconds);
  }

  async #restart(): Promise<Phase> {
    const { etcdBinary, dataDir, calmSeconds, downSeconds } = this.#options;
    await this.#flap(0);
    await delay(calmSeconds * 1000);
    await this.#begin();
    const watchers = this.#meter.last!.watchers;
    const clientPort = Number(new URL(this.#etcd.endpoint).port);
    await this.#etcd.crash();
    await delay(downSeconds * 1000);
    this.#etcd = await EmbeddedEtcd.start({ binary: etcdBinary, dataDir, clientPort });
    this.#meter.restarted(this.#etcd.pid);
    const backAtMs = performance.now();
    const quietSeconds = await this.#until(
      () =>
        this.fleet.up === this.fleet.hosts &&
        this.fleet.oldestMs < oldMs &&
        this.#meter.last!.watchers >= watchers,
      backAtMs,
    );
    await this.#flap(0, 0);
    // Until the confirming writes that the outage has caused have been made: they are part of what it costs.
    await delay(this.#settings['reader.confirmAfterOutage'] + lingerSeconds * 1000);
    return this.#over('etcd restart', backAtMs, quietSeconds);
  }

  async #calm(): Promise<Phase> {
    await this.#flap(0);
    return this.#wait('calm', this.#options.calmSeconds);
  }

  async #storm(): Promise<Phase> {
    const beganAtMs = await this.#begin();
    await this.#flap(this.#options.stormPerSecond);
    await delay(this.#options.stormSeconds * 1000);
    await this.#flap(0);
    const endedAtMs = performance.now();
    // The others go on as before, so that their latency counts until the end.
    const quietSeconds = await this.#until(() => this.fleet.stormOldestMs < oldMs, endedAtMs);
    const phase = await this.#over('storm', beganAtMs, quietSeconds);
    await this.#flap(0, 0);
    await this.#until(() => this.fleet.pending === 0, performance.now());
    await delay(this.#settings['reader.confirmAfter'] + 1000);
    return phase;
  }

  async #wait(name: Phase['name'], seconds: number): Promise<Phase> {
    const beganAtMs = await this.#begin();
    await delay(seconds * 1000);
    return this.#over(name, beganAtMs, null);
  }

  async #flap(stormPerSecond: number, calmPerSecond = this.#options.calmPerSecond): Promise<void> {
    await this.fleet.tell({
      kind: 'flap',
      stormPerSecond: Math.max(stormPerSecond, calmPerSecond),
      calmPerSecond,
    });
  }

  async #begin(): Promise<number> {
    await this.#meter.take();
    await this.fleet.report();
    this.fleet.takeWorst();
    return performance.now();
  }

  /** Seconds since then. */
  async #until(quiet: () => boolean, sinceMs: number): Promise<number> {
    await this.fleet.nextPulse();
    while (!quiet()) {
      if (performance.now() - sinceMs > patienceSeconds * 1000) {
        this.#quiet = false;
        break;
      }
      await delay(20);
    }
    return (performance.now() - sinceMs) / 1000;
  }

  async #over(name: Phase['name'], beganAtMs: number, quietSeconds: number | null): Promise<Phase> {
    const samples = (await this.#meter.take()).filter(({ atMs }) => atMs >= beganAtMs - 250);
    const reports = await this.fleet.report();
    const seconds = (performance.now() - beganAtMs) / 1000;
    return {
      name,
      seconds,
      quietSeconds,
      requests: requestsOf(samples),
      worst: this.fleet.takeWorst(),
      ...summary(reports),
    };
  }
}

type Summary = Omit<Phase, 'name' | 'seconds' | 'quietSeconds' | 'requests' | 'worst'>;

function summary(reports: readonly HostReport[]): Summary {
  const sum = (of: (report: HostReport) => number) =>
    reports.reduce((total, report) => total + of(report), 0);
  const storming = reports.filter(({ storms }) => storms);
  const retries: Record<string, number> = {};
  for (const report of reports)
    for (const [reason, n] of Object.entries(report.retries)) retries[reason] = (retries[reason] ?? 0) + n;
  const stormCommitted = storming.map(({ committed }) => committed);
  return {
    calm: latencyOf(reports.filter(({ storms }) => !storms)),
    storming: latencyOf(storming),
    txns: sum(({ txns }) => txns),
    hostTxnsPerSecondMax: Math.max(...reports.map(({ txnsPerSecondMax }) => txnsPerSecondMax)),
    stormCommitted: [Math.min(...stormCommitted), Math.max(...stormCommitted)],
    committed: sum(({ committed }) => committed),
    corrections: sum(({ corrections }) => corrections),
    retries,
    rateMin: Math.min(...reports.map(({ rateMin }) => rateMin)),
    fenced: sum(({ fenced }) => (fenced === null ? 0 : 1)),
    foreign: sum(({ foreign }) => foreign),
  };
}

function latencyOf(reports: readonly HostReport[]): Latency {
  const all = Float64Array.from(reports.flatMap(({ latenciesMs }) => latenciesMs)).sort();
  const at = (share: number) => all[Math.min(all.length - 1, Math.floor(all.length * share))] ?? 0;
  return { transitions: all.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: all.at(-1) ?? 0 };
}
