/** What a test knows of its host's keys, and etcd's history of them as it is: the one oracle of the tests. */
import type { EndpointId } from '../../src/endpoints/id.js';
import { parseStatusValue, statusKey, type Where } from '../../src/endpoints/key.js';
import { Status, type StatusName, statusName } from '../../src/endpoints/status.js';
import type { EtcdConnection } from '../../src/etcd/connection.js';
import { watchPrefix } from '../../src/etcd/watch.js';
import { FeedClient } from '../../src/sources/felix/client.js';
import { frame } from '../../src/sources/felix/frames.js';
import { encodeSequenceNumber, encodeStatus } from '../../src/sources/felix/messages.js';
import { until } from './waiting.js';

export const where: Where = { host: 'testhost', region: null };

export function vm(n: number | string): EndpointId {
  return { kind: 'workload', orchestrator: 'openstack', workload: `openstack/vm${n}`, endpoint: `port${n}` };
}

export function keyOf(n: number | string): string {
  return statusKey(vm(n), where);
}

export function statusFrame(id: EndpointId, status: Status, sequenceNumber: number): Buffer {
  return frame(encodeStatus(id, status), encodeSequenceNumber(sequenceNumber));
}

/** Follows etcd's history of all status keys from its beginning. */
export class History {
  readonly #events = new Map<string, { status: StatusName; revision: number }[]>();
  readonly #stop = new AbortController();
  readonly #watching: Promise<void>;

  constructor(etcd: string | EtcdConnection, fromRevision = 1) {
    const connection = typeof etcd === 'string' ? { endpoints: [etcd] } : etcd;
    this.#watching = watchPrefix(connection, '/calico/felix/', {
      fromRevision,
      onEvents: (events) => {
        for (const { key, value, revision } of events) {
          const status = value === null ? Status.removed : parseStatusValue(value);
          const list = this.#events.get(key) ?? [];
          list.push({
            status: status === null ? ('unreadable' as StatusName) : statusName(status),
            revision,
          });
          this.#events.set(key, list);
        }
      },
      onCompacted: () => undefined,
      signal: this.#stop.signal,
    });
  }

  of(key: string): StatusName[] {
    return (this.#events.get(key) ?? []).map(({ status }) => status);
  }

  get keys(): string[] {
    return [...this.#events.keys()];
  }

  /** Waits until the key's history is as long as this, and then a little, for one that would be too long. */
  async reaches(key: string, length: number, deadlineMs = 20_000): Promise<StatusName[]> {
    await until(
      `${length} revisions of ${key}; it has ${this.of(key).length}`,
      () => this.of(key).length >= length,
      { deadlineMs },
    );
    return this.of(key);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }
}

/** A feeder that numbers its frames and waits for acknowledgements. */
export class Feeder {
  readonly #client: FeedClient;
  #sent = 0;
  #acknowledged = 0;
  closed = false;

  private constructor(client: FeedClient) {
    this.#client = client;
  }

  static async connect(socket: string): Promise<Feeder> {
    let feeder: Feeder | null = null;
    const client = await FeedClient.connect(socket, {
      onAck: (sequenceNumber) => {
        if (feeder !== null) feeder.#acknowledged = sequenceNumber;
      },
      onClose: () => {
        if (feeder !== null) feeder.closed = true;
      },
    });
    feeder = new Feeder(client);
    return feeder;
  }

  send(id: EndpointId, status: Status): void {
    this.#sent++;
    this.#client.send(statusFrame(id, status, this.#sent));
  }

  /** Bytes as they are. */
  sendRaw(bytes: Buffer): void {
    this.#client.send(bytes);
  }

  async acknowledged(deadlineMs = 20_000): Promise<void> {
    await until(
      `frame ${this.#sent} to be acknowledged; ${this.#acknowledged} is`,
      () => this.#acknowledged >= this.#sent,
      { deadlineMs },
    );
  }

  /** Frames sent and not acknowledged. */
  get unacknowledged(): number {
    return this.#sent - this.#acknowledged;
  }

  async end(): Promise<void> {
    await this.#client.end();
  }
}
