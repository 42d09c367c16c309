/** The etcd that a storm goes to: one of its own, which faults may strike, or one that is there already. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EtcdConnection } from '../../etcd/connection.js';
import { EmbeddedEtcd, findEtcdBinary } from '../../etcd/embedded.js';

export type EtcdTarget =
  | { readonly kind: 'urls'; readonly connection: EtcdConnection }
  /** Null: in a temporary directory, gone at the end. */
  | { readonly kind: 'embedded'; readonly dir: string | null };

interface OwnEtcd {
  readonly binary: string;
  readonly dataDir: string;
  readonly temporary: boolean;
}

export class StormEtcd {
  readonly connection: EtcdConnection;
  kills = 0;
  stops = 0;
  readonly #own: OwnEtcd | null;
  #etcd: EmbeddedEtcd | null;
  readonly #onDeath: (why: string) => void;

  private constructor(
    connection: EtcdConnection,
    own: OwnEtcd | null,
    etcd: EmbeddedEtcd | null,
    onDeath: (why: string) => void,
  ) {
    this.connection = connection;
    this.#own = own;
    this.#etcd = etcd;
    this.#onDeath = onDeath;
  }

  /** `onDeath`: an etcd of the storm's own ended, and not by one of its faults. */
  static async start(target: EtcdTarget, onDeath: (why: string) => void): Promise<StormEtcd> {
    if (target.kind === 'urls') return new StormEtcd(target.connection, null, null, onDeath);
    const binary = findEtcdBinary();
    const dataDir = target.dir ?? (await mkdtemp(join(tmpdir(), 'flapd-storm-etcd-')));
    const own = { binary, dataDir, temporary: target.dir === null };
    try {
      const etcd = await EmbeddedEtcd.start({ binary, dataDir, clientPort: 0, onExit: onDeath });
      return new StormEtcd({ endpoints: [etcd.endpoint] }, own, etcd, onDeath);
    } catch (error) {
      if (own.temporary) await rm(dataDir, { recursive: true, force: true });
      throw error;
    }
  }

  /** Of an etcd of the storm's own; null: it is none of the storm's. */
  get pid(): number | null {
    return this.#etcd?.pid ?? null;
  }

  /** SIGKILL, then the same etcd again with the same data on the same port. */
  async killAndRestart(downMs: number): Promise<void> {
    const etcd = this.#etcd!;
    const { binary, dataDir } = this.#own!;
    await etcd.crash();
    this.kills++;
    await sleep(downMs);
    const clientPort = Number(new URL(etcd.endpoint).port);
    this.#etcd = await EmbeddedEtcd.start({ binary, dataDir, clientPort, onExit: this.#onDeath });
  }

  /** SIGSTOP, then SIGCONT. */
  async freeze(stoppedMs: number): Promise<void> {
    this.#etcd!.kill('SIGSTOP');
    this.stops++;
    await sleep(stoppedMs);
    this.#etcd!.kill('SIGCONT');
  }

  async close(): Promise<void> {
    await this.#etcd?.stop();
    if (this.#own?.temporary) await rm(this.#own.dataDir, { recursive: true, force: true });
  }

  /** When there is no time left to wait. */
  killNow(): void {
    this.#etcd?.kill('SIGKILL');
  }
}
