/** A driver socket in a folder of its own, what it heard, and those who speak to it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Definition } from '../../../src/endpoints/derive.js';
import type { EndpointId } from '../../../src/endpoints/id.js';
import { type Status, statusName } from '../../../src/endpoints/status.js';
import { FeedClient } from '../../../src/sources/felix/client.js';
import { DriverFeed, type DriverFeedEvents } from '../../../src/sources/felix/driver-feed.js';
import { encodeDriverMessage } from '../../../src/sources/felix/driver-messages.js';
import { frame } from '../../../src/sources/felix/frames.js';
import { encodeStatus } from '../../../src/sources/felix/messages.js';
import { encodeToDataplane } from '../../../src/sources/felix/to-dataplane.js';

export function vm(n: number): EndpointId {
  return { kind: 'workload', orchestrator: 'openstack', workload: `openstack/vm${n}`, endpoint: 'port' };
}

export function definition(n: number, interfaceName = `tap${n}`): Definition {
  return { kind: 'workload', id: vm(n), interfaceName, active: true };
}

/** Messages of Felix's, as felix-driver passes them on. */
export const felix = {
  defines: (n: number, interfaceName?: string) =>
    encodeToDataplane({
      kind: 'defined',
      definition: definition(n, interfaceName),
      networks: ['10.0.0.1/32'],
    })!,
  removes: (n: number) => encodeToDataplane({ kind: 'removed', id: vm(n) })!,
  inSync: encodeToDataplane({ kind: 'inSync' })!,
};

export class DriverFeedFixture {
  readonly folder = mkdtempSync(join(tmpdir(), 'flapd-driver-'));
  readonly path = join(this.folder, 'driver.sock');
  /** What was heard, in order; the seq of a thing is how many there are up to it. */
  readonly heard: string[] = [];
  readonly times: number[] = [];
  readonly results: Record<string, number> = {};
  readonly logged: string[] = [];
  readonly clients: FeedClient[] = [];
  /** Whether what is heard is durable at once. */
  durable = true;
  readonly #events: Partial<DriverFeedEvents>;
  feed: DriverFeed;

  constructor(events: Partial<DriverFeedEvents> = {}) {
    this.#events = events;
    this.feed = this.newFeed();
  }

  newFeed(): DriverFeed {
    return new DriverFeed({
      socketPath: this.path,
      group: null,
      frameTimeoutMs: 10_000,
      nowUs: () => 77,
      onFrame: (result) => {
        this.results[result] = (this.results[result] ?? 0) + 1;
      },
      events: {
        defined: ({ id, interfaceName }, atUs) => this.#hear(`${nameOf(id)} is ${interfaceName}`, atUs),
        removed: (id, atUs) => this.#hear(`${nameOf(id)} is no more`, atUs),
        told: (id, status, atUs) => this.#hear(`${nameOf(id)} ${statusName(status)}`, atUs),
        processStatus: ({ uptimeSeconds }) => this.#hear(`alive for ${uptimeSeconds} s`, 0),
        inSync: () => this.#hear('in sync', 0),
        ...this.#events,
      },
      log: {
        info: (_, message) => this.logged.push(message),
        warn: ({ why }: { why?: string }, message) => this.logged.push(`${message}: ${why}`),
      },
    });
  }

  /** flapd starts again: it knows only what it is told from now on. */
  async restart(): Promise<void> {
    await this.feed.stop();
    this.feed = this.newFeed();
    await this.feed.start();
  }

  async connect(onAck: (sequenceNumber: number) => void = () => undefined): Promise<FeedClient> {
    const client = await FeedClient.connect(this.path, { onAck });
    this.clients.push(client);
    return client;
  }

  async close(): Promise<void> {
    for (const client of this.clients) client.destroy();
    await this.feed.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #hear(what: string, atUs: number): number {
    const seq = this.heard.push(what);
    this.times.push(atUs);
    if (this.durable) setImmediate(() => this.feed.durable(seq));
    return seq;
  }
}

function nameOf(id: EndpointId): string {
  return id.kind === 'host' ? id.endpoint : id.workload.replace('openstack/', '');
}

export function snapshot(...contents: Uint8Array[]): Buffer {
  return Buffer.concat([
    frame(...encodeDriverMessage({ kind: 'snapshotBegin' })),
    ...contents,
    frame(...encodeDriverMessage({ kind: 'snapshotEnd' })),
  ]);
}

export function toDataplane(content: Uint8Array, sequenceNumber = 0, observedAtUs = 5): Buffer {
  return frame(...encodeDriverMessage({ kind: 'toDataplane', content, sequenceNumber, observedAtUs }));
}

export function told(n: number, status: Status, sequenceNumber = 0): Buffer {
  return frame(
    ...encodeDriverMessage({ kind: 'fromDataplane', content: encodeStatus(vm(n), status), sequenceNumber }),
  );
}
