/**
 * A model of how Neutron reads statuses (networking-calico, etcdutils.py, status.py and mech_calico.py): a watch over
 * etcd's JSON gateway, and a driver that keeps only the latest status of each port and writes it to its database from
 * four threads.
 *
 * - A watch's event always makes the port be written; what a snapshot shows, only where it is news.
 * - A thread takes the status when it begins, and 100 ms later the database has it. Nothing keeps two threads from
 *   writing the same port, so that of two transitions that are close together the older one may be written last.
 * - Where the connection is lost the reader is blind for a while. Then it takes a snapshot, and watches from there on.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type GatewayAnswer,
  gatewayRange,
  gatewayUrl,
  watchGateway,
} from '../../src/storm/observe/gateway.js';
import { until } from '../support/waiting.js';

const threads = 4;
/** How long the threads take by turns: 100 ms on average. */
const writesMs = [60, 140];

export interface NeutronOptions {
  /** After a lost connection. */
  readonly blindMs?: number;
}

/** Of a port: its status as it is in the key's value; null: the key is gone. */
type PortStatus = string | null;

export interface Event {
  readonly key: string;
  readonly status: PortStatus;
  readonly revision: number;
}

export class Neutron {
  /** All that the watches have told, in the order of their coming. */
  readonly events: Event[] = [];
  /** The answers of the watches that carried events. */
  readonly answers: { bytes: number; events: number }[] = [];
  /** How often a watch was opened. */
  watches = 0;
  readonly #endpoint: string;
  readonly #prefix: string;
  readonly #blindMs: number;
  readonly #written = new Map<string, PortStatus[]>();
  readonly #latest = new Map<string, PortStatus>();
  readonly #queue: string[] = [];
  readonly #stopping = new AbortController();
  #busy = 0;
  #turn = 0;
  #running: Promise<void> = Promise.resolve();

  private constructor(endpoint: string, prefix: string, blindMs: number) {
    this.#endpoint = endpoint;
    this.#prefix = prefix;
    this.#blindMs = blindMs;
  }

  /** Watches when it resolves. */
  static async start(endpoint: string, { blindMs = 0 }: NeutronOptions = {}): Promise<Neutron> {
    const neutron = new Neutron(endpoint, '/calico/felix/v2/no-region/host/', blindMs);
    neutron.#running = neutron.#run();
    await until('Neutron to watch', () => neutron.watches === 1);
    return neutron;
  }

  /** What the watches have told of a key. */
  told(key: string): PortStatus[] {
    return this.events.filter((event) => event.key === key).map(({ status }) => status);
  }

  /** All that the database was told of a key. */
  acted(key: string): readonly PortStatus[] {
    return this.#written.get(key) ?? [];
  }

  /** What the database has. */
  database(key: string): PortStatus | undefined {
    return this.#written.get(key)?.at(-1);
  }

  /** Whether there is nothing left to write. */
  get idle(): boolean {
    return this.#busy === 0 && this.#queue.length === 0;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    this.#queue.length = 0; // each takes a thread 100 ms, and nobody asks for what they would write
    await until('the threads to end', () => this.#busy === 0);
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const revision = await this.#snapshot();
        const url = gatewayUrl(this.#endpoint, 'watch');
        for await (const answer of watchGateway(url, this.#prefix, revision + 1, signal))
          this.#answer(answer);
      } catch {
        // The connection is gone, or there is none yet: both are waited for below.
      }
      await sleep(this.#blindMs, undefined, { signal }).catch(() => undefined);
    }
  }

  async #snapshot(): Promise<number> {
    const { header, kvs = [] } = await callGateway<{
      header: { revision: string };
      kvs?: { key: string; value: string }[];
    }>(this.#endpoint, 'kv/range', gatewayRange(this.#prefix));
    const there = new Map(kvs.map(({ key, value }) => [fromBase64(key), statusOf(value)]));
    for (const [key, status] of there) if (this.#latest.get(key) !== status) this.#changed(key, status);
    for (const key of this.#latest.keys()) if (!there.has(key)) this.#changed(key, null);
    return Number(header.revision);
  }

  #answer({ created, bytes, events }: GatewayAnswer): void {
    if (created) this.watches++;
    if (events.length > 0) this.answers.push({ bytes, events: events.length });
    for (const { type, kv } of events) {
      const status = type === 'DELETE' ? null : statusOf(kv.value ?? '');
      this.events.push({ key: fromBase64(kv.key), status, revision: Number(kv.mod_revision) });
      this.#changed(fromBase64(kv.key), status);
    }
  }

  #changed(key: string, status: PortStatus): void {
    this.#latest.set(key, status);
    this.#queue.push(key);
    if (this.#busy < threads) void this.#thread();
  }

  async #thread(): Promise<void> {
    this.#busy++;
    for (let key = this.#queue.shift(); key !== undefined; key = this.#queue.shift()) {
      const status = this.#latest.get(key) ?? null;
      await sleep(writesMs[this.#turn++ % writesMs.length]);
      const written = this.#written.get(key) ?? [];
      written.push(status);
      this.#written.set(key, written);
    }
    this.#busy--;
  }
}

/** One call of etcd's JSON gateway. */
export async function callGateway<Answer>(endpoint: string, call: string, request: object): Promise<Answer> {
  const response = await fetch(gatewayUrl(endpoint, call), { method: 'POST', body: JSON.stringify(request) });
  if (!response.ok) throw new Error(`${call}: status ${response.status}`);
  return (await response.json()) as Answer;
}

function fromBase64(text: string): string {
  return Buffer.from(text, 'base64').toString('utf8');
}

/** As Neutron does it: anything unexpected kills the watcher. */
function statusOf(value: string): string {
  const bytes = Buffer.from(value, 'base64');
  const { status } = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as {
    status: string;
  };
  return status;
}
