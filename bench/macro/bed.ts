/** What all that is measured shares: one etcd, and the ways to let flapd and its baselines at it. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { EmbeddedEtcd, findEtcdBinary } from '../../src/etcd/embedded.js';
import type { LoadOptions, LoadResult } from './load.js';
import { type Fed, Subject } from './subject.js';

export type Progress = (text: string) => void;

export interface StormOptions {
  readonly endpoints: number;
  /** Told before it is measured: code compiled, ids known, each operation encoded. */
  readonly warm: number;
  /** A number, or what that takes so many seconds. */
  readonly transitions: number | { readonly seconds: number };
  readonly settings?: Readonly<Record<string, string>>;
}

const load = fileURLToPath(new URL('./load.js', import.meta.url));
const run = promisify(execFile);

export class Bed {
  readonly etcd: EmbeddedEtcd;
  readonly progress: Progress;
  #hosts = 0;

  private constructor(etcd: EmbeddedEtcd, progress: Progress) {
    this.etcd = etcd;
    this.progress = progress;
  }

  /** Starts the etcd, and ends it when all is done. */
  static async with<T>(progress: Progress, use: (bed: Bed) => Promise<T>): Promise<T> {
    const dataDir = mkdtempSync(join(tmpdir(), 'flapd-bench-etcd-'));
    const etcd = await EmbeddedEtcd.start({
      binary: findEtcdBinary(),
      dataDir,
      clientPort: 0,
      // The standard 2 GiB are full before a long run is over, and all that it says then is that it takes no more.
      extraArgs: [`--quota-backend-bytes=${8 * 2 ** 30}`],
      onExit: (why) => {
        throw new Error(`etcd has ended: ${why}`);
      },
    });
    try {
      return await use(new Bed(etcd, progress));
    } finally {
      await etcd.crash(); // faster than a good-bye, and its data go
      rmSync(dataDir, { recursive: true, force: true });
    }
  }

  /** None writes into another one's keys. */
  newHost(): string {
    return `bench-${this.#hosts++}`;
  }

  async load(
    options: Omit<LoadOptions, 'etcd' | 'host'>,
  ): Promise<LoadResult & { readonly writesPerSecond: number; readonly cpuMicrosPerWrite: number }> {
    const all: LoadOptions = { ...options, etcd: this.etcd.endpoint, host: this.newHost() };
    const { stdout } = await run(process.execPath, [load, JSON.stringify(all)]);
    const result = JSON.parse(stdout) as LoadResult;
    return {
      ...result,
      writesPerSecond: result.writes / result.seconds,
      cpuMicrosPerWrite: result.cpuMicros / result.writes,
    };
  }

  /** A flapd of its own for as long as `use` takes. */
  async subject<T>(
    endpoints: number,
    settings: Readonly<Record<string, string>>,
    use: (subject: Subject) => Promise<T>,
  ): Promise<T> {
    const subject = await Subject.start({
      etcd: this.etcd,
      host: this.newHost(),
      endpoints,
      settings: { 'endpoints.max': String(Math.max(endpoints, 20_000)), ...settings },
    });
    try {
      return await use(subject);
    } finally {
      await subject.stop();
    }
  }

  /** Verified: everything is in etcd, once. */
  storm({ endpoints, warm, transitions, settings = {} }: StormOptions): Promise<Fed> {
    return this.subject(endpoints, settings, async (subject) => {
      const { transitionsPerSecond } = await subject.storm(Math.max(endpoints * 2, warm));
      const count =
        typeof transitions === 'number'
          ? transitions
          : Math.max(1000, Math.round(transitions.seconds * transitionsPerSecond));
      const fed = await subject.storm(count);
      await subject.verify();
      return fed;
    });
  }
}
