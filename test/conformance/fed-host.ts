/** An etcd with its history, and hosts whose endpoints are told by a dataplane: what most of these tests need. */
import type { TestContext } from 'node:test';
import type { EndpointId } from '../../src/endpoints/id.js';
import { statusKey, type Where } from '../../src/endpoints/key.js';
import type { Status } from '../../src/endpoints/status.js';
import { frame } from '../../src/sources/felix/frames.js';
import { encodeInSync } from '../../src/sources/felix/messages.js';
import { type Etcd, type EtcdOptions, startEtcd } from '../support/etcd.js';
import { Flapd, type FlapdOptions } from '../support/flapd.js';
import { Feeder, History, where as thisHost } from '../support/host.js';

/** Every transition goes as soon as it can, and nothing is written besides. */
export const unspaced = ['--set=limits.endpointDelay=0', '--set=reader.confirm=false'];

/** As Felix names the host's own interfaces. */
export function nic(name: string): EndpointId {
  return { kind: 'host', endpoint: name };
}

type HostOptions = { where?: Where } & Pick<FlapdOptions, 'env' | 'folder'>;

export class FedHost {
  readonly flapd: Flapd;
  readonly feeder: Feeder;
  readonly where: Where;

  private constructor(flapd: Flapd, feeder: Feeder, where: Where) {
    this.flapd = flapd;
    this.feeder = feeder;
    this.where = where;
  }

  /** Its settings are the standard ones but for these arguments; the journal is in memory. */
  static async start(
    etcd: string,
    args: readonly string[] = [],
    { where = thisHost, ...options }: HostOptions = {},
  ): Promise<FedHost> {
    const region = where.region === null ? [] : [`--region=${where.region}`];
    const flapd = await Flapd.start({
      ...options,
      etcd,
      args: [`--host=${where.host}`, ...region, '--endpoints-from=feed', '--journal=memory', ...args],
    });
    await flapd.says('the feed socket is open');
    return new FedHost(flapd, await Feeder.connect(flapd.feedSocket), where);
  }

  key(id: EndpointId): string {
    return statusKey(id, this.where);
  }

  /** Tells these statuses of one endpoint, and waits until they are accepted. */
  async tell(id: EndpointId, ...statuses: Status[]): Promise<void> {
    for (const status of statuses) this.feeder.send(id, status);
    await this.feeder.acknowledged();
  }

  /** The dataplane has named all that exists. */
  inSync(): void {
    this.feeder.sendRaw(frame(encodeInSync()));
  }

  /** SIGTERM; gives the exit code. Also where it has been stopped already. */
  stop(): Promise<number | string> {
    return this.flapd.stop();
  }
}

/** The etcd of one test, its history, and the hosts that report to it; all of it ends with the test, hosts first. */
export class Store {
  readonly etcd: Etcd;
  readonly history: History;
  readonly #hosts: FedHost[] = [];

  private constructor(etcd: Etcd) {
    this.etcd = etcd;
    this.history = new History(etcd.endpoint);
  }

  static async open(t: TestContext, options: EtcdOptions = {}): Promise<Store> {
    const store = new Store(await startEtcd(options));
    t.after(() => store.#close());
    return store;
  }

  /** `through`: where it finds etcd, if not there. */
  async host(
    args: readonly string[] = [],
    { through = this.etcd.endpoint, ...options }: HostOptions & { through?: string } = {},
  ): Promise<FedHost> {
    const host = await FedHost.start(through, args, options);
    this.#hosts.push(host);
    return host;
  }

  async #close(): Promise<void> {
    await Promise.all(this.#hosts.map((host) => host.stop()));
    await this.history.close();
    await this.etcd.close();
  }
}
