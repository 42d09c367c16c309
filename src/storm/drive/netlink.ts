/**
 * A storm of real interfaces: veth pairs in the storm's own namespace. flapd watches one side; the other side is taken
 * down and up, which takes the carrier of the watched side away and gives it back. The kernel may merge what it tells
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
      await ip.run(
        `link add name ${watched(i)} type veth peer name ${peer(i)}`,
        `link set dev ${watched(i)} up`,
        `link set dev ${peer(i)} up`,
      );
    }
    this.#before = this.ids.map((_, i) => countersOf(watched(i)));
  }

  async connect(): Promise<void> {}

  async run(plan: Plan, pace: Pace, events: DriverEvents, signal: AbortSignal): Promise<void> {
    for (let step = 0; step < plan.length; step++) {
      const wait = pace.wait(step, signal);
      if (wait !== undefined) await wait;
      const direction = plan.statuses[step] === Status.up ? 'up' : 'down';
      events.told(step, performance.now());
      await this.#ip!.run(`link set dev ${peer(plan.endpoints[step]!)} ${direction}`);
      this.#taken++;
    }
  }

  crossCheck(plan: Plan): string | null {
    for (const [i, statuses] of plan.expected.entries()) {
      const before = this.#before[i];
      const after = countersOf(watched(i));
      if (before == null || after === null) continue; // /sys is not this namespace's
      const ups = statuses.filter((status) => status === Status.up).length;
      const downs = statuses.length - ups;
      if (after.ups - before.ups === ups && after.downs - before.downs === downs) continue;
      return (
        `the kernel counted ${after.ups - before.ups} ups and ${after.downs - before.downs} downs of ` +
        `${watched(i)}'s carrier, where the storm made ${ups} and ${downs}`
      );
    }
    return null;
  }

  async close(): Promise<void> {
    await this.#ip?.close();
  }
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
