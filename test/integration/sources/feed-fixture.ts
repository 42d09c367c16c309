/** A feed socket in a folder of its own, and what came in by it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { EndpointId, EndpointIndex } from '../../../src/endpoints/id.js';
import { statusKey } from '../../../src/endpoints/key.js';
import { Status } from '../../../src/endpoints/status.js';
import { type FeedOptions, FeedSource } from '../../../src/sources/felix/feed.js';
import { frame } from '../../../src/sources/felix/frames.js';
import { encodeSequenceNumber, encodeStatus } from '../../../src/sources/felix/messages.js';
import { until } from '../../support/waiting.js';

export function vm(n: number): EndpointId {
  return { kind: 'workload', orchestrator: 'o', workload: `vm${n}`, endpoint: 'e' };
}

export function up(n: number, sequenceNumber = 0): Buffer {
  return frame(encodeStatus(vm(n), Status.up), encodeSequenceNumber(sequenceNumber));
}

export function closed(socket: Socket): Promise<unknown> {
  return until('the connection to be closed', () => socket.readableEnded || socket.destroyed);
}

export class FeedFixture {
  readonly folder = mkdtempSync(join(tmpdir(), 'flapd-feed-'));
  readonly path = join(this.folder, 'run', 'feed.sock');
  /** The endpoints observed; an observation's seq is how many there are. */
  readonly observed: number[] = [];
  readonly results: Record<string, number> = {};
  readonly warnings: string[] = [];
  readonly sockets: Socket[] = [];
  inSync = 0;
  feed = this.source();
  readonly #keys = new Map<string, EndpointIndex>();

  get endpoints(): number {
    return this.#keys.size;
  }

  source(options: Partial<FeedOptions> = {}): FeedSource {
    return new FeedSource({
      socketPath: this.path,
      group: null,
      frameBytesMax: 64 * 1024,
      connectionsMax: 16,
      endpointsMax: 100,
      frameTimeoutMs: 10_000,
      nowUs: () => 1,
      sink: {
        intern: (id) => {
          const key = statusKey(id, { host: 'h', region: null });
          const endpoint = this.#keys.get(key) ?? (this.#keys.size as EndpointIndex);
          this.#keys.set(key, endpoint);
          return endpoint;
        },
        observe: (endpoint) => this.observed.push(endpoint),
      },
      onFrame: (result) => {
        this.results[result] = (this.results[result] ?? 0) + 1;
      },
      onInSync: () => {
        this.inSync++;
      },
      log: {
        info: () => undefined,
        warn: ({ why }: { why?: string }, message) => this.warnings.push(`${message}: ${why}`),
      },
      ...options,
    });
  }

  async open(options: Partial<FeedOptions> = {}): Promise<void> {
    this.feed = this.source(options);
    await this.feed.start();
  }

  /** A connection of no manners; ended by close(). */
  async raw(allowHalfOpen = false): Promise<Socket> {
    const socket = createConnection({ path: this.path, allowHalfOpen });
    this.sockets.push(socket);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return socket;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets.splice(0)) socket.destroy();
    await this.feed.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
