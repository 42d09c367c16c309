/** The processes that hold the hosts, as one. */
import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Command, HistoryReport, HostReport, HostsOptions, Pulse } from './hosts.js';
import type { Overrides } from './settings.js';

type Message =
  | Pulse
  | { readonly kind: 'answer'; readonly id: number; readonly answer: unknown }
  | { readonly kind: 'failed'; readonly id: number; readonly message: string };

/** A process of hosts that is too busy to hear that it is over is ended the hard way. */
const endWithinMs = 5000;

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

class HostsProcess {
  pulse: Pulse | null = null;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, Waiting>();
  readonly #exited: Promise<void>;
  readonly #onPulse: () => void;
  #nextId = 0;

  constructor(options: HostsOptions, onPulse: () => void) {
    this.#onPulse = onPulse;
    this.#child = fork(fileURLToPath(new URL('./hosts.js', import.meta.url)), [JSON.stringify(options)], {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child.on('message', (message: Message) => this.#heard(message));
    this.#exited = new Promise((resolve) => this.#child.once('exit', () => resolve()));
    void this.#exited.then(() => {
      for (const { reject } of this.#waiting.values()) reject(new Error('a process of hosts has ended'));
    });
  }

  tell(command: Command): Promise<unknown> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#child.send({ id, command });
    });
  }

  async end(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect(); // it exits then
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), endWithinMs);
    await this.#exited;
    clearTimeout(timer);
  }

  #heard(message: Message): void {
    if (message.kind === 'pulse') {
      this.pulse = message;
      this.#onPulse();
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.kind === 'answer') waiting?.resolve(message.answer);
    else waiting?.reject(new Error(message.message));
  }
}

export interface FleetOptions {
  readonly etcd: string;
  readonly hosts: number;
  readonly processes: number;
  readonly endpoints: number;
  readonly seed: number;
  readonly overrides: Overrides;
}

/** The worst that any pulse has told, since the last time it was asked. */
export interface Worst {
  readonly calmOldestMs: number;
  readonly stormOldestMs: number;
  readonly lateMs: number;
}

export class Fleet {
  readonly hosts: number;
  readonly #processes: HostsProcess[];
  #worst: Worst = { calmOldestMs: 0, stormOldestMs: 0, lateMs: 0 };

  constructor({ hosts, processes, ...rest }: FleetOptions) {
    this.hosts = hosts;
    const firsts = Array.from({ length: processes + 1 }, (_, i) => Math.round((i * hosts) / processes));
    this.#processes = firsts
      .slice(0, -1)
      .map(
        (first, i) =>
          new HostsProcess({ ...rest, first, count: firsts[i + 1]! - first }, () => this.#pulsed()),
      );
  }

  async tell(command: Command): Promise<void> {
    await this.#ask(command);
  }

  async report(): Promise<HostReport[]> {
    return ((await this.#ask({ kind: 'report' })) as HostReport[][]).flat();
  }

  async history(): Promise<HistoryReport> {
    const parts = (await this.#ask({ kind: 'history' })) as HistoryReport[];
    return {
      transitions: new Map(parts.flatMap((part) => [...part.transitions])),
      confirmations: parts.reduce((sum, part) => sum + part.confirmations, 0),
    };
  }

  get pending(): number {
    return this.#sum('pending');
  }

  get ready(): number {
    return this.#sum('ready');
  }

  get up(): number {
    return this.#sum('up');
  }

  /** The age of the oldest transition pending on any host. */
  get oldestMs(): number {
    return Math.max(
      ...this.#processes.map(({ pulse }) => Math.max(pulse?.calmOldestMs ?? 0, pulse?.stormOldestMs ?? 0)),
    );
  }

  get stormOldestMs(): number {
    return Math.max(...this.#processes.map(({ pulse }) => pulse?.stormOldestMs ?? 0));
  }

  /** When each process has sent a pulse after this moment. */
  async nextPulse(): Promise<void> {
    for (const process of this.#processes) process.pulse = null;
    while (this.#processes.some(({ pulse }) => pulse === null)) await delay(10);
  }

  takeWorst(): Worst {
    const worst = this.#worst;
    this.#worst = { calmOldestMs: 0, stormOldestMs: 0, lateMs: 0 };
    return worst;
  }

  async end(): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.end()));
  }

  #ask(command: Command): Promise<unknown[]> {
    return Promise.all(this.#processes.map((process) => process.tell(command)));
  }

  #sum(of: 'pending' | 'ready' | 'up'): number {
    return this.#processes.reduce((sum, { pulse }) => sum + (pulse?.[of] ?? 0), 0);
  }

  #pulsed(): void {
    const most = (of: keyof Worst) =>
      Math.max(this.#worst[of], ...this.#processes.map(({ pulse }) => pulse?.[of] ?? 0));
    this.#worst = {
      calmOldestMs: most('calmOldestMs'),
      stormOldestMs: most('stormOldestMs'),
      lateMs: most('lateMs'),
    };
  }
}
