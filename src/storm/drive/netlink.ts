/**
 * A storm of real interfaces: veth pairs in the storm's own namespace. flapd watches one side; the other side is taken
 * down and up, which takes the carrier of the watched side away and gives it back; and now and then a pair is deleted and
 * made again under the same name, as a rebuilt VM's is. The kernel may merge what it tells
 * about that for up to a second (docs/design.md, section 5.1), so a commit may come that much later than its flap;
 * the kernel's carrier counters say afterwards that each flap did happen.
 */
import { readFileSync } from 'node:fs';
import type { EndpointId } from '../../endpoints/id.js';
import { Status } from '../../endpoints/status.js';
import type { Plan } from '../plan/plan.js';
import type { Driver, DriverEvents } from './driver.js';
import { IpBatch } from './ip-batch.js';
import type { Pace } from './pace.js';

/** Which interfaces flapd is to watch: the peers are called otherwise. */
export const watchedInterfaces = '^veth';

interface Counters {
  readonly ups: number;
  readonly downs: number;
}

export class NetlinkDriver implements Driver {
  readonly ids: readonly EndpointId[];
  readonly connections = null;
  readonly #endpoints: number;
  #ip: IpBatch | null = null;
  #before: (Counters | null)[] = [];
  readonly #gone = new Set<number>();
  #taken = 0;

  constructor(endpoints: number) {
    this.#endpoints = endpoints;
    this.ids = Array.from({ length: endpoints }, (_, i) => ({
      kind: 'workload',
      orchestrator: 'flapd',
      workload: watched(i),
      endpoint: watched(i),
    }));
  }

  get taken(): number {
    return this.#taken;
  }

  /** Every interface is there and running. */
  async prepare(): Promise<void> {
    const ip = new IpBatch();
    this.#ip = ip;
    for (let i = 0; i < this.#endpoints; i++) {
      await ip.run(...creation(i), `link set dev ${peer(i)} up`);
    }
    this.#before = this.ids.map((_, i) => countersOf(watched(i)));
  }

  async connect(): Promise<void> {}

  async run(plan: Plan, pace: Pace, events: DriverEvents, signal: AbortSignal): Promise<void> {
    for (let step = 0; step < plan.length; step++) {
      const wait = pace.wait(step, signal);
      if (wait !== undefined) await wait;
      events.told(step, performance.now());
      await this.#bringAbout(plan.endpoints[step]!, plan.statuses[step] as Status);
      this.#taken++;
    }
  }

  crossCheck(plan: Plan): string | null {
    for (const [i, statuses] of plan.expected.entries()) {
      const before = this.#before[i];
      const after = countersOf(watched(i));
      if (before == null || after === null) continue; // it is removed, or /sys is not this namespace's
      // A rebuilt interface has counted from its `down` on.
      const rebuiltAt = statuses.lastIndexOf(Status.removed);
      const counted = rebuiltAt < 0 ? statuses : statuses.slice(rebuiltAt + 2);
      const ups = counted.filter((status) => status === Status.up).length;
      const downs = counted.length - ups;
      if (after.ups - before.ups === ups && after.downs - before.downs === downs) continue;
      return (
        `the kernel counted ${after.ups - before.ups} ups and ${after.downs - before.downs} downs of ` +
        `${watched(i)}'s carrier, where the storm made ${ups} and ${downs}`
      );
    }
    return null;
  }

  async #bringAbout(endpoint: number, status: Status): Promise<void> {
    const ip = this.#ip!;
    if (status === Status.removed) {
      await ip.run(`link delete dev ${watched(endpoint)}`);
      this.#gone.add(endpoint);
      return;
    }
    if (this.#gone.delete(endpoint)) {
      // The same name, another interface.
      await ip.run(...creation(endpoint));
      this.#before[endpoint] = countersOf(watched(endpoint));
      if (status === Status.down) return;
    }
    await ip.run(`link set dev ${peer(endpoint)} ${status === Status.up ? 'up' : 'down'}`);
  }

  async close(): Promise<void> {
    await this.#ip?.close();
  }
}

/** The watched side is up, and has no carrier until its peer is up as well. */
function creation(number: number): string[] {
  return [
    `link add name ${watched(number)} type veth peer name ${peer(number)}`,
    `link set dev ${watched(number)} up`,
  ];
}

function watched(number: number): string {
  return `veth${number}`;
}

function peer(number: number): string {
  return `p${number}`;
}

function countersOf(name: string): Counters | null {
  try {
    const read = (file: string): number => Number(readFileSync(`/sys/class/net/${name}/${file}`, 'utf8'));
    return { ups: read('carrier_up_count'), downs: read('carrier_down_count') };
  } catch {
    return null;
  }
}
