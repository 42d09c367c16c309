/**
 * The macro bench: flapd and its baselines in turn, round by round, on one etcd, so that a machine that gets slower gets
 * slower for all of them. Each figure is the median of the rounds.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { openEtcd } from '../../src/etcd/client.js';
import { EmbeddedEtcd, findEtcdBinary } from '../../src/etcd/embedded.js';
import type { LoadOptions, LoadResult } from './load.js';
import { Subject } from './subject.js';
import type { TargetName } from './targets.js';

export interface MacroOptions {
  readonly rounds: number;
  /** Of each baseline. */
  readonly seconds: number;
  /** Of each storm of flapd. */
  readonly transitions: number;
  readonly progress: (text: string) => void;
}

/** By name, one value for each round; of targets and of what they are made of. */
export type Samples = Map<string, number[]>;

const load = fileURLToPath(new URL('./load.js', import.meta.url));
const run = promisify(execFile);
const manyEndpoints = 100_000;

export async function measure(options: MacroOptions): Promise<Samples> {
  const dataDir = mkdtempSync(join(tmpdir(), 'flapd-bench-etcd-'));
  const etcd = await EmbeddedEtcd.start({
    binary: findEtcdBinary(),
    dataDir,
    clientPort: 0,
    onExit: (why) => {
      throw new Error(`etcd has ended: ${why}`);
    },
  });
  try {
    return await new Macro(etcd.endpoint, options).run();
  } finally {
    await etcd.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

class Macro {
  readonly #etcd: string;
  readonly #options: MacroOptions;
  readonly #samples: Samples = new Map();
  #hosts = 0;

  constructor(etcd: string, options: MacroOptions) {
    this.#etcd = etcd;
    this.#options = options;
  }

  async run(): Promise<Samples> {
    const { rounds, transitions, progress } = this.#options;
    for (let round = 1; round <= rounds; round++) {
      progress(`round ${round} of ${rounds}`);
      const ceiling = await this.#load('ceiling', 127);
      const sustained = await this.#storm('flapd', 1000, transitions, {});
      this.#against('sustained against ceiling', sustained.transitionsPerSecond, ceiling);
      const ceilingAt5 = await this.#load('ceiling', 5);
      const at5 = await this.#storm('flapd at 5', 1000, Math.round(transitions / 8), {
        'txn.watchBytesMax': '2000',
      });
      this.#against('sustained against ceiling at 5', at5.transitionsPerSecond, ceilingAt5);
      const perEvent = await this.#load('putPerEvent', 1000);
      this.#against('against put-per-event', sustained.transitionsPerSecond, perEvent);
      const serial = await this.#load('felixSerial', 1000);
      this.#against('against felix-serial', sustained.transitionsPerSecond, serial);
      const bare = await this.#load('bare', 1);
      const alone = await this.#storm('flapd, one endpoint', 1, Math.round(transitions / 50), {});
      this.#against('one endpoint alone', alone.transitionsPerSecond, bare);
      await this.#latency(bare);
      this.#add('CPU per transition', sustained.cpuMicrosPerTransition);
      const many = await this.#storm(
        `flapd, ${manyEndpoints} endpoints`,
        manyEndpoints,
        Math.max(transitions, manyEndpoints),
        { 'endpoints.max': String(manyEndpoints) },
      );
      this.#against('CPU at 100,000 endpoints', many.cpuMicrosPerTransition, {
        perSecond: sustained.cpuMicrosPerTransition,
      });
    }
    await this.#idleAndColdStart();
    return this.#samples;
  }

  async #load(
    mode: LoadOptions['mode'],
    endpoints: number,
  ): Promise<LoadResult & { readonly perSecond: number }> {
    const { seconds, progress } = this.#options;
    const options: LoadOptions = { mode, etcd: this.#etcd, host: this.#newHost(), endpoints, seconds };
    const { stdout } = await run(process.execPath, [load, JSON.stringify(options)]);
    const result = JSON.parse(stdout) as LoadResult;
    const perSecond = result.writes / result.seconds;
    const name = mode === 'ceiling' ? `ceiling at ${endpoints}` : mode;
    this.#add(`${name}, writes/s`, perSecond);
    this.#add(`${name}, CPU us`, result.cpuMicros / result.writes);
    progress(
      `  ${name}: ${perSecond.toFixed(0)}/s, ${(result.cpuMicros / result.writes).toFixed(1)} us each`,
    );
    return { ...result, perSecond };
  }

  async #storm(
    name: string,
    endpoints: number,
    transitions: number,
    settings: Readonly<Record<string, string>>,
  ): Promise<{ transitionsPerSecond: number; cpuMicrosPerTransition: number }> {
    const subject = await Subject.start({ etcd: this.#etcd, host: this.#newHost(), endpoints, settings });
    try {
      // Warm: code compiled, ids known, each operation encoded.
      await subject.storm(Math.max(endpoints * 2, Math.round(transitions / 4)));
      const fed = await subject.storm(transitions);
      await subject.verify();
      this.#add(`${name}, transitions/s`, fed.transitionsPerSecond);
      this.#add(`${name}, CPU us`, fed.cpuMicrosPerTransition);
      this.#add(`${name}, RSS MiB`, fed.rssMiB);
      this.#options.progress(
        `  ${name}: ${fed.transitionsPerSecond.toFixed(0)}/s, ${fed.cpuMicrosPerTransition.toFixed(1)} us each, ${fed.rssMiB.toFixed(0)} MiB`,
      );
      return fed;
    } finally {
      await subject.stop();
    }
  }

  async #latency({ p50Ms }: LoadResult): Promise<void> {
    const subject = await Subject.start({ etcd: this.#etcd, host: this.#newHost(), endpoints: 1 });
    try {
      await subject.trickle(50, 10);
      const latenciesMs = (await subject.trickle(200, 10)).sort((a, b) => a - b);
      const p50 = latenciesMs[latenciesMs.length / 2]!;
      this.#add('flapd, p50 ms', p50);
      this.#add('bare put, p50 ms', p50Ms);
      this.#against('latency at 100/s', p50, { perSecond: p50Ms });
      this.#options.progress(`  latency at 100/s: ${p50.toFixed(2)} ms, a bare put ${p50Ms.toFixed(2)} ms`);
    } finally {
      await subject.stop();
    }
  }

  /** As it is after an hour, and when it starts with all that etcd has already. */
  async #idleAndColdStart(): Promise<void> {
    const { progress } = this.#options;
    const folder = mkdtempSync(join(tmpdir(), 'flapd-bench-'));
    const host = this.#newHost();
    const standard = { etcd: this.#etcd, host, endpoints: 1000, folder };
    const settings = { 'limits.txnsPerSecond': '50', 'txn.watchBytesMax': '0', 'reader.confirm': 'true' };
    try {
      const subject = await Subject.start({ ...standard, settings });
      await subject.storm(1000);
      await delay(40_000); // V8 gives back what the start took
      const before = subject.cpuMicros;
      await delay(10_000);
      this.#add('idle CPU', ((subject.cpuMicros - before) / 10_000_000) * 100);
      this.#add('idle RSS', subject.rssMiB);
      await subject.stop({ keepFolder: true });

      const client = openEtcd({ endpoints: [this.#etcd] });
      const revision = async (): Promise<number> =>
        Number((await client.kv.range({ key: Buffer.from('x') })).header.revision);
      const revisionBefore = await revision();
      const again = await Subject.start({ ...standard, settings });
      this.#add('cold start', again.readyAfterMs);
      await again.tell(1000);
      await delay(2000);
      this.#add('cold start writes', (await revision()) - revisionBefore - 1); // the claim's
      await again.stop();
      client.close();
      progress(`  ready after ${again.readyAfterMs.toFixed(0)} ms`);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  #against(name: TargetName, figure: number, { perSecond }: { readonly perSecond: number }): void {
    this.#add(name, figure / perSecond);
  }

  #add(name: string | TargetName, figure: number): void {
    this.#samples.set(name, [...(this.#samples.get(name) ?? []), figure]);
  }

  /** None writes into another one's keys. */
  #newHost(): string {
    return `bench-${this.#hosts++}`;
  }
}
