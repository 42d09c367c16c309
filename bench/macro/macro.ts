/**
 * The macro bench: flapd and its baselines in turn, round by round, on one etcd, so that a machine that gets slower gets
 * slower for all of them. Each figure is the median of the rounds.
 */
import { measureFlaps } from '../netlink/measure.js';
import type { Sizes } from '../sizes.js';
import type { Bed } from './bed.js';
import { idleAndColdStart } from './idle.js';
import type { LoadOptions, LoadResult } from './load.js';
import { percentilesOf } from './percentiles.js';
import type { Profile } from './profile.js';
import { Samples } from './samples.js';
import type { Fed } from './subject.js';
import type { TargetName } from './targets.js';

const flapsInterfaces = 100;
/** A second: of latencies. */
const pace = 100;
/** As they are called among the figures. */
const profileNames: Readonly<Record<keyof Profile, string>> = {
  mainThread: 'main thread, CPU us',
  workerThreads: 'worker threads, CPU us',
  otherThreads: 'other threads, CPU us',
  etcd: 'etcd, CPU us',
  feeder: 'feeder, CPU us',
  inFlight: 'transactions in flight',
};

type Means = Pick<Fed, 'transitionsPerSecond' | 'cpuMicrosPerTransition'>;

interface Storm {
  readonly name: string;
  readonly endpoints: number;
  readonly transitions: number;
  readonly settings?: Readonly<Record<string, string>>;
}

/** What a storm's rate is compared with. */
interface Baseline {
  readonly target: TargetName;
  readonly mode: LoadOptions['mode'];
  readonly operations: number;
}

export async function measureTargets(bed: Bed, sizes: Sizes): Promise<Samples> {
  const macro = new Macro(bed, sizes);
  for (let round = 1; round <= sizes.rounds; round++) {
    bed.progress(`round ${round} of ${sizes.rounds}`);
    await macro.round();
  }
  await idleAndColdStart(bed, sizes, macro.samples);
  return macro.samples;
}

class Macro {
  readonly samples = new Samples();
  readonly #bed: Bed;
  readonly #sizes: Sizes;

  constructor(bed: Bed, sizes: Sizes) {
    this.#bed = bed;
    this.#sizes = sizes;
  }

  async round(): Promise<void> {
    const { samples } = this;
    const { transitions, manyEndpoints } = this.#sizes;
    const sustained = await this.#storms(
      { name: 'flapd', endpoints: 1000, transitions },
      { target: 'sustained against ceiling', mode: 'ceiling', operations: 127 },
    );
    samples.add('CPU per transition', sustained.cpuMicrosPerTransition);
    // Right after it: a machine that gets slower on the way would be taken for the endpoints' cost.
    const many = await this.#storms({
      name: 'flapd, 100000 endpoints',
      endpoints: manyEndpoints,
      transitions: Math.max(transitions, manyEndpoints),
    });
    samples.against(
      'CPU at 100,000 endpoints',
      many.cpuMicrosPerTransition,
      sustained.cpuMicrosPerTransition,
    );
    await this.#storms(
      {
        name: 'flapd at 5',
        endpoints: 1000,
        transitions: Math.round(transitions / 8),
        settings: { 'txn.watchBytesMax': '2000' },
      },
      { target: 'sustained against ceiling at 5', mode: 'ceiling', operations: 5 },
    );
    const perEvent = await this.#load('putPerEvent', 1000);
    samples.against('against put-per-event', sustained.transitionsPerSecond, perEvent.writesPerSecond);
    const serial = await this.#load('felixSerial', 1000);
    samples.against('against felix-serial', sustained.transitionsPerSecond, serial.writesPerSecond);
    await this.#storms(
      { name: 'flapd, one endpoint', endpoints: 1, transitions: Math.round(transitions / 50) },
      { target: 'one endpoint alone', mode: 'bare', operations: 1 },
    );
    await this.#latency();
    await this.#flaps();
  }

  /**
   * One flapd's storms: several, since in one alone V8 collects its whole heap, in the next it does not. With a baseline,
   * before and after each of them: where the machine gets slower on the way, neither gains by it. Returns their means.
   */
  async #storms(storm: Storm, baseline?: Baseline): Promise<Means> {
    const load = async () => baseline && (await this.#load(baseline.mode, baseline.operations));
    return this.#bed.subject(storm.endpoints, storm.settings ?? {}, async (subject) => {
      // What V8 compiles, and when, is no part of what goes on for hours.
      await subject.storm(Math.round(storm.transitions * this.#sizes.warm));
      const fed: Fed[] = [];
      let before = await load();
      while (fed.length < this.#sizes.storms) {
        const one = await subject.storm(storm.transitions);
        this.#tell(storm.name, one);
        fed.push(one);
        const after = await load();
        if (baseline && before && after) {
          const writesPerSecond = (before.writesPerSecond + after.writesPerSecond) / 2;
          this.samples.against(baseline.target, one.transitionsPerSecond, writesPerSecond);
        }
        before = after;
      }
      await subject.verify();
      return meanOf(fed);
    });
  }

  async #load(
    mode: LoadOptions['mode'],
    endpoints: number,
  ): Promise<LoadResult & { readonly writesPerSecond: number }> {
    const result = await this.#bed.load({ mode, endpoints, seconds: this.#sizes.seconds });
    const name = mode === 'ceiling' ? `ceiling at ${endpoints}` : mode;
    this.samples.add(`${name}, writes/s`, result.writesPerSecond);
    this.samples.add(`${name}, CPU us`, result.cpuMicrosPerWrite);
    this.samples.add(`${name}, p50 ms`, result.latencyMs.p50);
    this.#bed.progress(
      `  ${name}: ${result.writesPerSecond.toFixed(0)}/s, ${result.cpuMicrosPerWrite.toFixed(1)} us each`,
    );
    return result;
  }

  #tell(name: string, fed: Fed): void {
    this.samples.add(`${name}, transitions/s`, fed.transitionsPerSecond);
    this.samples.add(`${name}, CPU us`, fed.cpuMicrosPerTransition);
    this.samples.add(`${name}, RSS MiB`, fed.rssMiB);
    for (const [who, figure] of Object.entries(profileNames))
      this.samples.add(`${name}, ${figure}`, fed.profile[who as keyof Profile]);
    this.#bed.progress(
      `  ${name}: ${fed.transitionsPerSecond.toFixed(0)}/s, ${fed.cpuMicrosPerTransition.toFixed(1)} us each, ${fed.rssMiB.toFixed(0)} MiB`,
    );
  }

  async #latency(): Promise<void> {
    const count = Math.max(50, Math.round(this.#sizes.seconds * pace));
    const { fromTold, fromAccepted } = await this.#bed.subject(1, {}, async (subject) => {
      await subject.latencies(50, pace);
      return subject.latencies(count, pace);
    });
    const paced = await this.#bed.load({
      mode: 'bare',
      endpoints: 1,
      seconds: this.#sizes.seconds,
      perSecond: pace,
    });
    const accepted = percentilesOf(fromAccepted).p50;
    const told = percentilesOf(fromTold).p50;
    const put = paced.latencyMs.p50;
    this.samples.add('flapd at 100/s, accepted to seen, p50 ms', accepted);
    this.samples.add('flapd at 100/s, told to seen, p50 ms', told);
    this.samples.add('bare put at 100/s, p50 ms', put);
    this.samples.against('latency at 100/s', accepted, put);
    this.#bed.progress(
      `  latency at 100/s: ${accepted.toFixed(2)} ms from accepted, ${told.toFixed(2)} ms from told, a bare put ${put.toFixed(2)} ms`,
    );
  }

  async #flaps(): Promise<void> {
    const { samples } = this;
    const result = await measureFlaps({ interfaces: flapsInterfaces, seconds: this.#sizes.netlinkSeconds });
    if ('denied' in result) {
      samples.fault('netlink at 10,000/s', `not measured: ${result.denied}`);
      this.#bed.progress(`  netlink: not measured: ${result.denied}`);
      return;
    }
    const percent = result.mainThreadMicros; // 10,000 times a hundredth of a millionth
    samples.add('netlink at 10,000/s', percent);
    samples.add('netlink, messages/s', result.messages / result.seconds);
    samples.add('netlink, main thread, CPU us', result.mainThreadMicros);
    samples.add('netlink, process, CPU us', result.processMicros);
    samples.add('netlink, reader, CPU us', result.readerMicros);
    if (result.lost !== null) samples.fault('netlink at 10,000/s', `lost: ${result.lost}`);
    this.#bed.progress(
      `  netlink: ${(result.messages / result.seconds).toFixed(0)} messages/s, ${result.mainThreadMicros.toFixed(1)} us each on the main thread, ${result.lost ?? 'nothing lost'}`,
    );
  }
}

/** Of storms of the same size: all their transitions by all their time. */
function meanOf(fed: readonly Fed[]): Means {
  const mean = (figure: (one: Fed) => number): number =>
    fed.reduce((sum, one) => sum + figure(one), 0) / fed.length;
  return {
    transitionsPerSecond: 1 / mean(({ transitionsPerSecond }) => 1 / transitionsPerSecond),
    cpuMicrosPerTransition: mean(({ cpuMicrosPerTransition }) => cpuMicrosPerTransition),
  };
}
