/** What a storm is let loose on: an etcd, and a flapd that reports to it under a host name of the storm's own. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Etcd3 } from 'etcd3';
import type { SettingName } from '../../config/settings.js';
import type { EndpointId } from '../../endpoints/id.js';
import {
  claimKey,
  flapdPrefix,
  parseStatusValue,
  statusKey,
  type Where,
  workloadPrefix,
} from '../../endpoints/key.js';
import { openEtcd } from '../../etcd/client.js';
import { listPrefix } from '../../etcd/list.js';
import type { StormOptions } from '../options.js';
import type { Known } from '../plan/expectation.js';
import { Daemon } from './daemon.js';
import { StormEtcd } from './etcd.js';
import { isOn, subjectEnvironment, subjectSettings } from './settings.js';

export interface SubjectEvents {
  /** etcd or flapd ended, and not by the storm's doing. */
  died(why: string): void;
  started(what: 'etcd' | 'flapd', pid: number): void;
}

export class SubjectError extends Error {
  readonly code: 'STORM_SUBJECT' | 'STORM_ETCD';

  constructor(code: SubjectError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SubjectError';
    this.code = code;
  }
}

const settlePollMs = 50;
const mainFile = fileURLToPath(new URL('../../cli/main.js', import.meta.url));

export class Subject {
  readonly etcd: StormEtcd;
  readonly daemon: Daemon;
  readonly where: Where;
  readonly settings: ReadonlyMap<SettingName, string>;
  readonly socketPath: string;
  readonly client: Etcd3;
  readonly #dir: string;
  readonly #events: SubjectEvents;
  readonly #patienceMs: number;

  private constructor(
    etcd: StormEtcd,
    dir: string,
    host: string,
    options: StormOptions,
    events: SubjectEvents,
  ) {
    this.etcd = etcd;
    this.#dir = dir;
    this.#events = events;
    this.#patienceMs = options.patienceMs;
    this.where = { host, region: null };
    this.socketPath = join(dir, 'feed.sock');
    this.client = openEtcd(etcd.connection);
    this.settings = subjectSettings({
      via: options.via,
      host,
      connection: etcd.connection,
      socketPath: this.socketPath,
      journalDir: join(dir, 'journal'),
      endpoints: options.endpoints,
      production: options.production,
      overrides: options.settings,
    });
    const set = [...this.settings].flatMap(([name, value]) => ['--set', `${name}=${value}`]);
    this.daemon = new Daemon({
      args: ['--enable-source-maps', mainFile, 'run', '--config', join(dir, 'flapd.yaml'), ...set],
      env: subjectEnvironment(process.env),
      logFile: join(dir, 'flapd.log'),
      onDeath: (why) => events.died(why),
    });
    process.on('exit', this.#killNow);
  }

  /** Starts etcd; flapd is startDaemon()'s. Rejects where there is no etcd. */
  static async open(options: StormOptions, host: string, events: SubjectEvents): Promise<Subject> {
    const dir = await mkdtemp(join(tmpdir(), 'flapd-storm-'));
    try {
      await mkdir(join(dir, 'journal'), { mode: 0o700 });
      await writeFile(join(dir, 'flapd.yaml'), '');
      const etcd = await StormEtcd.start(options.etcd, (why) => events.died(`etcd ended by itself: ${why}`));
      if (etcd.pid !== null) events.started('etcd', etcd.pid);
      const subject = new Subject(etcd, dir, host, options, events);
      await subject.#reach();
      return subject;
    } catch (error) {
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }

  get statusPrefix(): string {
    return workloadPrefix(this.where);
  }

  /** Whether flapd makes confirming writes. */
  get confirms(): boolean {
    return isOn(this.settings, 'reader.confirm');
  }

  get faultsSoFar(): { flapdKills: number; etcdKills: number; etcdStops: number } {
    return { flapdKills: this.daemon.kills, etcdKills: this.etcd.kills, etcdStops: this.etcd.stops };
  }

  async #reach(): Promise<void> {
    try {
      await this.client.kv.range({ key: Buffer.from(claimKey(this.where)) });
    } catch (cause) {
      const { endpoints } = this.etcd.connection;
      await this.close(true);
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new SubjectError('STORM_ETCD', `etcd at ${endpoints.join(', ')} does not answer: ${why}`, {
        cause,
      });
    }
  }

  startDaemon(): void {
    this.daemon.start();
    this.#tellPid();
  }

  async killDaemon(): Promise<void> {
    await this.daemon.killAndRestart();
    this.#tellPid();
  }

  async killEtcd(downMs: number): Promise<void> {
    await this.etcd.killAndRestart(downMs);
    if (this.etcd.pid !== null) this.#events.started('etcd', this.etcd.pid);
  }

  /**
   * Waits until flapd has its claim, and etcd the status that every endpoint has at first (null: none is awaited).
   * Returns the revision after which the storm begins.
   */
  async settle(ids: readonly EndpointId[], initial: Known, signal: AbortSignal): Promise<number> {
    const deadlineMs = performance.now() + this.#patienceMs;
    const wanted = initial === null ? [] : ids.map((id) => statusKey(id, this.where));
    let seen = 'no answer from etcd';
    while (performance.now() < deadlineMs) {
      signal.throwIfAborted();
      try {
        const claimed = await this.client.kv.range({
          key: Buffer.from(claimKey(this.where)),
          keys_only: true,
        });
        const { keys, revision } = await listPrefix(this.client, this.statusPrefix);
        const settled = new Set<string>();
        for (const { key, value } of keys) if (parseStatusValue(value) === initial) settled.add(key);
        if (claimed.kvs.length > 0 && wanted.every((key) => settled.has(key))) return revision;
        seen = `${claimed.kvs.length > 0 ? 'a claim' : 'no claim'}, and ${settled.size} of ${wanted.length} initial statuses`;
      } catch (error) {
        seen = error instanceof Error ? error.message : String(error);
      }
      await sleep(settlePollMs);
    }
    throw new SubjectError(
      'STORM_SUBJECT',
      `flapd did not get ready for the storm within ${this.#patienceMs / 1000} s: ${seen}. Its last words:\n${this.daemon.lastWords()}`,
    );
  }

  /** Ends everything and removes what the storm has left, in etcd too unless `keep`. */
  async close(keep: boolean): Promise<void> {
    await this.daemon.stop();
    if (!keep) {
      for (const prefix of [this.statusPrefix, flapdPrefix(this.where)]) {
        await this.client
          .delete()
          .prefix(prefix)
          .exec()
          .catch(() => undefined); // an etcd that is gone has been reported, and one of our own goes with its data
      }
    }
    this.client.close();
    await this.etcd.close();
    await rm(this.#dir, { recursive: true, force: true });
    process.off('exit', this.#killNow);
  }

  readonly #killNow = (): void => {
    this.daemon.killNow();
    this.etcd.killNow();
  };

  #tellPid(): void {
    if (this.daemon.pid !== null) this.#events.started('flapd', this.daemon.pid);
  }
}
