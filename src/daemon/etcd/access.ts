/**
 * etcd as the daemon reaches it: the client of the moment and the workers. Both are made anew where what they were made
 * of has changed: certificates and passwords are read when a connection is opened, so a rotation needs no restart.
 */
import { X509Certificate } from 'node:crypto';
import type { Etcd3 } from 'etcd3';
import { openEtcd } from '../../etcd/client.js';
import {
  type EtcdConnection,
  fingerprint,
  type OpenedConnection,
  openConnection,
} from '../../etcd/connection.js';
import type { WorkerPool } from '../../etcd/pool.js';
import type { Log } from '../../telemetry/log.js';
import type { Saying } from '../operate/saying.js';

/** How often the files are looked at. */
const lookEveryMs = 10_000;

export class EtcdAccess {
  readonly pool: WorkerPool;
  readonly #log: Log;
  readonly #saying: Saying;
  #connection: EtcdConnection;
  #client: Etcd3;
  #files: string;
  #certificateNotAfterMs: number | null;
  #timer: NodeJS.Timeout | null = null;
  #renewing: Promise<void> = Promise.resolve();
  #closed = false;

  /** Throws an EtcdConnectionError. */
  constructor(connection: EtcdConnection, pool: WorkerPool, log: Log, saying: Saying) {
    this.pool = pool;
    this.#log = log;
    this.#saying = saying;
    this.#connection = connection;
    const opened = openConnection(connection);
    this.#files = fingerprint(opened);
    this.#certificateNotAfterMs = notAfterMs(opened);
    this.#client = openEtcd(connection);
  }

  /** Of the moment: not to be kept across an await. */
  get client(): Etcd3 {
    return this.#client;
  }

  get connection(): EtcdConnection {
    return this.#connection;
  }

  /** When the client's certificate expires, in Unix milliseconds; null: there is none. */
  get certificateNotAfterMs(): number | null {
    return this.#certificateNotAfterMs;
  }

  async start(): Promise<void> {
    await this.pool.start();
    if (this.#closed) return;
    this.#timer = setInterval(() => void this.renew(this.#connection), lookEveryMs);
    this.#timer.unref();
  }

  /**
   * Goes over to this connection, where it or what its files hold differs from the one there is. The old one serves
   * until the new one does, and where the new one cannot be opened: false then.
   */
  async renew(connection: EtcdConnection): Promise<boolean> {
    const turn = this.#renewing.then(() => this.#renew(connection));
    this.#renewing = turn.then(() => undefined);
    return turn;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#renewing;
    await this.pool.close();
    this.#client.close();
  }

  async #renew(connection: EtcdConnection): Promise<boolean> {
    if (this.#closed) return false;
    try {
      const opened = openConnection(connection);
      const files = fingerprint(opened);
      if (files === this.#files && connection === this.#connection) return true;
      const client = openEtcd(connection);
      await this.pool.rebuild(connection).catch((error: unknown) => {
        client.close();
        throw error;
      });
      this.#client.close();
      this.#client = client;
      this.#connection = connection;
      this.#files = files;
      this.#certificateNotAfterMs = notAfterMs(opened);
      this.#saying.over('credentials');
      this.#log.info({}, 'connected to etcd anew, with the files and settings as they are now');
      return true;
    } catch (error) {
      this.#saying.once(
        'credentials',
        { error: error instanceof Error ? error.message : String(error) },
        'the files for etcd have changed and are no use as they are now; going on with what was there before',
      );
      return false;
    }
  }
}

function notAfterMs({ tls }: OpenedConnection): number | null {
  return tls === null || tls.cert === null ? null : Date.parse(new X509Certificate(tls.cert).validTo);
}
