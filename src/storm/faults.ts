/** Carries out a storm's faults, each when its share of the storm is reached; plan/faults.ts says which. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, FaultKind } from './plan/faults.js';

export interface FaultActions {
  /** Resolves when flapd listens again. */
  killFlapd(): Promise<void>;
  killEtcd(downMs: number): Promise<void>;
  stopEtcd(stoppedMs: number): Promise<void>;
}

export interface FaultListener {
  fault(kind: FaultKind, phase: 'begins' | 'over'): void;
}

const pollMs = 2;

/** While a fault is due, so much more of the storm goes on, for the fault to strike into. */
const slackShare = 0.02;
const slackSteps = 64;

export class Faults {
  readonly #steps: number;
  /** Those that have not begun. */
  readonly #ahead: Set<Fault>;
  readonly #actions: FaultActions;
  readonly #share: () => number;
  readonly #listener: FaultListener;

  /** `share`: how much of the storm flapd has taken, 0 to 1. What it has taken last is still on its way to etcd. */
  constructor(
    faults: readonly Fault[],
    steps: number,
    actions: FaultActions,
    share: () => number,
    listener: FaultListener,
  ) {
    this.#ahead = new Set(faults);
    this.#steps = steps;
    this.#actions = actions;
    this.#share = share;
    this.#listener = listener;
  }

  /** Steps from this number on have to wait: otherwise a fast storm would be over before its faults. */
  gate(): number {
    let gate = Number.POSITIVE_INFINITY;
    for (const { at } of this.#ahead) gate = Math.min(gate, at);
    return gate === Number.POSITIVE_INFINITY
      ? gate
      : Math.ceil(gate * this.#steps) + Math.max(slackSteps, Math.ceil(slackShare * this.#steps));
  }

  /** Resolves when all faults are over. Those of flapd and those of etcd come independently, and may overlap. */
  async run(signal: AbortSignal): Promise<void> {
    const all = [...this.#ahead];
    await Promise.all([
      this.#runInTurn(
        all.filter(({ kind }) => kind === 'killFlapd'),
        signal,
      ),
      this.#runInTurn(
        all.filter(({ kind }) => kind !== 'killFlapd'),
        signal,
      ),
    ]);
  }

  async #runInTurn(faults: readonly Fault[], signal: AbortSignal): Promise<void> {
    for (const fault of faults) {
      while (this.#share() < fault.at) await sleep(pollMs, undefined, { signal });
      await sleep(fault.delayMs, undefined, { signal });
      this.#listener.fault(fault.kind, 'begins');
      this.#ahead.delete(fault);
      await this.#carryOut(fault);
      this.#listener.fault(fault.kind, 'over');
    }
  }

  #carryOut(fault: Fault): Promise<void> {
    switch (fault.kind) {
      case 'killFlapd':
        return this.#actions.killFlapd();
      case 'killEtcd':
        return this.#actions.killEtcd(fault.downMs);
      case 'stopEtcd':
        return this.#actions.stopEtcd(fault.stoppedMs);
    }
  }
}
