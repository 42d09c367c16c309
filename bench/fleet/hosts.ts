/**
 * A process that holds many hosts, forked by processes.ts: it does what it is told (Command), answers each command once
 * with the same number, and sends a Pulse ten times a second.
 */

import { Random } from '../../src/storm/plan/random.js';
import { openLog } from '../../src/telemetry/log.js';
import { Account, Host } from './host.js';
import { HostJournal } from './journal.js';
import type { Overrides } from './settings.js';

export interface HostsOptions {
  readonly etcd: string;
  /** The number of the first one, and how many there are. */
  readonly first: number;
  readonly count: number;
  readonly endpoints: number;
  readonly seed: number;
  readonly overrides: Overrides;
}

export type Command =
  /** All at once. */
  | { readonly kind: 'start' }
  /** Transitions a second of each host that storms, and of each other one. */
  | { readonly kind: 'flap'; readonly stormPerSecond: number; readonly calmPerSecond: number }
  /** The accounts since the last time. */
  | { readonly kind: 'report' }
  /** What each key must say, in order. */
  | { readonly kind: 'history' }
  | { readonly kind: 'stop' };

export interface Pulse {
  readonly kind: 'pulse';
  readonly pending: number;
  readonly ready: number;
  /** Hosts that believe etcd takes what they send. */
  readonly up: number;
  /** The age of the oldest pending transition of any calm host, and of any that storms. */
  readonly calmOldestMs: number;
  readonly stormOldestMs: number;
  /** How late this process's timers are: beyond some 100 ms it is the machine that is measured. */
  readonly lateMs: number;
}

export interface HostReport {
  readonly storms: boolean;
  readonly txns: number;
  /** The most in any window of a second. */
  readonly txnsPerSecondMax: number;
  readonly committed: number;
  readonly latenciesMs: readonly number[];
  readonly overloads: number;
  readonly retries: Readonly<Record<string, number>>;
  readonly resyncs: number;
  readonly corrections: number;
  /** The lowest rate that overload has left it. */
  readonly rateMin: number;
  readonly epoch: number;
  readonly foreign: number;
  readonly fenced: string | null;
}

/** By key: `u` and `d`, one for each transition. */
export interface HistoryReport {
  readonly transitions: ReadonlyMap<string, string>;
  readonly confirmations: number;
}

/** Every tenth host storms. */
export const stormsEvery = 10;

const tickMs = 20;
const pulseEveryMs = 100;

/** In any window of a second, beginning with any of them. */
export function perSecondMax(sentAtMs: readonly number[]): number {
  let most = 0;
  for (let first = 0, last = 0; last < sentAtMs.length; last++) {
    while (sentAtMs[last]! - sentAtMs[first]! >= 1000) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

class Hosts {
  readonly #options: HostsOptions;
  readonly #journals: HostJournal[];
  readonly #log = openLog({ level: 'silent', format: 'json' });
  #hosts: Host[] = [];
  readonly #random: Random;
  /** Where each host's turn through its endpoints is, and what of a flap is due to it. */
  readonly #turns: { next: number; due: number }[];
  #rates = { stormPerSecond: 0, calmPerSecond: 0 };
  #flappedAtMs = performance.now();
  #pulsedAtMs = performance.now();

  constructor(options: HostsOptions) {
    this.#options = options;
    this.#random = new Random(options.seed + options.first);
    this.#journals = Array.from({ length: options.count }, () => new HostJournal());
    this.#turns = this.#journals.map(() => ({ next: this.#random.below(options.endpoints), due: 0 }));
    setInterval(() => this.#flap(), tickMs);
    setInterval(() => this.#pulse(), pulseEveryMs);
  }

  async carryOut(command: Command): Promise<unknown> {
    switch (command.kind) {
      case 'start':
        await Promise.all(this.#hosts.map((host) => host.stop()));
        this.#hosts = this.#journals.map((journal, i) => this.#newHost(journal, i));
        await Promise.all(this.#hosts.map((host) => host.start()));
        return null;
      case 'flap':
        this.#rates = command;
        // Not all in one moment.
        for (const turn of this.#turns) turn.due = this.#random.next();
        return null;
      case 'report':
        return this.#hosts.map((host, i) => this.#reportOf(host, i));
      case 'history':
        return this.#history();
      case 'stop':
        await Promise.all(this.#hosts.map((host) => host.stop()));
        return null;
    }
  }

  #newHost(journal: HostJournal, i: number): Host {
    const { etcd, endpoints, first, overrides } = this.#options;
    const name = `compute-${String(first + i).padStart(5, '0')}`;
    return new Host({ name, etcd, endpoints, overrides, journal, log: this.#log });
  }

  #storms(i: number): boolean {
    return (this.#options.first + i) % stormsEvery === 0;
  }

  #flap(): void {
    const nowMs = performance.now();
    const seconds = (nowMs - this.#flappedAtMs) / 1000;
    this.#flappedAtMs = nowMs;
    const { endpoints } = this.#options;
    const { stormPerSecond, calmPerSecond } = this.#rates;
    for (const [i, host] of this.#hosts.entries()) {
      const turn = this.#turns[i]!;
      turn.due += seconds * (this.#storms(i) ? stormPerSecond : calmPerSecond);
      for (; turn.due >= 1; turn.due--) {
        // In turn, so that a calm host's endpoints are never held back by their own spacing.
        host.flap(turn.next);
        turn.next = (turn.next + 1) % endpoints;
      }
    }
  }

  #pulse(): void {
    const nowMs = performance.now();
    const lateMs = Math.max(0, nowMs - this.#pulsedAtMs - pulseEveryMs);
    this.#pulsedAtMs = nowMs;
    const [calm, storm] = [false, true].map((storms) =>
      Math.max(
        0,
        ...this.#hosts
          .filter((_, i) => this.#storms(i) === storms)
          .map((host) => host.oldestPendingMs(nowMs)),
      ),
    );
    const pulse: Pulse = {
      kind: 'pulse',
      pending: this.#hosts.reduce((sum, host) => sum + host.pending, 0),
      ready: this.#hosts.filter((host) => host.ready).length,
      up: this.#hosts.filter((host) => host.etcdUp).length,
      calmOldestMs: calm!,
      stormOldestMs: storm!,
      lateMs,
    };
    process.send!(pulse);
  }

  #reportOf(host: Host, i: number): HostReport {
    const { sentAtMs, latenciesMs, ...counts } = host.account;
    host.account = new Account();
    return {
      storms: this.#storms(i),
      txns: sentAtMs.length,
      txnsPerSecondMax: perSecondMax(sentAtMs),
      latenciesMs,
      ...counts,
      rateMin: Math.min(counts.rateMin, host.rate),
      epoch: host.epoch,
      foreign: host.foreign,
      fenced: host.fenced,
    };
  }

  #history(): HistoryReport {
    const transitions = new Map<string, string>();
    let confirmations = 0;
    for (const journal of this.#journals) {
      confirmations += journal.confirmations;
      for (const [endpoint, key] of journal.keys)
        transitions.set(
          key,
          journal.transitions[endpoint]!.map((status) => (status === 1 ? 'u' : 'd')).join(''),
        );
    }
    return { transitions, confirmations };
  }
}

if (process.send !== undefined) {
  const hosts = new Hosts(JSON.parse(process.argv[2]!) as HostsOptions);
  process.on('message', ({ id, command }: { id: number; command: Command }) => {
    hosts.carryOut(command).then(
      (answer) => process.send!({ kind: 'answer', id, answer }),
      (error: unknown) => process.send!({ kind: 'failed', id, message: String(error) }),
    );
  });
  // It is over, or whoever forked it has gone.
  process.on('disconnect', () => process.exit(0));
}
