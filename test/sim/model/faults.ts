/** The network and the server's moods: what becomes of a request, and what its sender hears of it. */
import type { TxnAnswer, UnclearReason } from '../../../src/reporter/answers.js';
import type { Txn } from '../../../src/reporter/effects.js';
import type { Clock } from './clock.js';
import type { ModelEtcd } from './etcd.js';
import type { Random } from './random.js';

export interface FaultRates {
  lostRequest: number;
  lostAnswer: number;
  late: number;
  noSpace: number;
  overloaded: number;
  unauthenticated: number;
  worker: number;
}

export class Faults {
  readonly #clock: Clock;
  readonly #etcd: ModelEtcd;
  readonly #random: Random;
  readonly #rates: FaultRates;
  readonly #delayMsMax: number;
  /** Nobody reaches etcd. */
  down = false;
  /** Kinds of endpoint (0 workload, 1 host) that the role may not write. */
  readonly denied = new Set<number>();
  #over = false;

  constructor(clock: Clock, etcd: ModelEtcd, random: Random, rates: FaultRates, delayMsMax: number) {
    this.#clock = clock;
    this.#etcd = etcd;
    this.#random = random;
    this.#rates = rates;
    this.#delayMsMax = delayMsMax;
  }

  /** From now on all goes well. */
  end(): void {
    this.#over = true;
    this.down = false;
    this.denied.clear();
  }

  send(txn: Txn, epoch: number, answer: (answer: TxnAnswer) => void): void {
    const apply = (): TxnAnswer => this.#etcd.txn(txn, txn.seqs, epoch, this.#clock.nowMs);
    const unclear = (reason: UnclearReason): TxnAnswer => ({
      kind: 'unclear',
      reason,
      message: `simulated ${reason}`,
    });
    const there = this.#delay();
    const back = there + this.#delay();
    const clock = this.#clock;
    if (this.down) {
      clock.after(there, () => answer(unclear('unavailable')));
      return;
    }
    const kind = txn.endpoints[0] === undefined ? 0 : kindOf(txn.endpoints[0]);
    if (this.denied.has(kind)) {
      clock.after(back, () => answer({ kind: 'denied', message: 'etcdserver: permission denied' }));
      return;
    }
    switch (this.#fault()) {
      case 'lostRequest':
        clock.after(back, () => answer(unclear('unavailable')));
        return;
      case 'lostAnswer':
        clock.after(there, apply);
        clock.after(back, () => answer(unclear('leaderChanged')));
        return;
      case 'late':
        clock.after(2000, () => answer(unclear('timeout')));
        clock.after(2000 + this.#random.below(6000), apply);
        return;
      case 'noSpace':
        clock.after(there, apply);
        clock.after(back, () => answer(unclear('noSpace')));
        return;
      case 'overloaded':
        clock.after(back, () => answer({ kind: 'overloaded', message: 'etcdserver: too many requests' }));
        return;
      case 'unauthenticated':
        clock.after(back, () =>
          answer({ kind: 'unauthenticated', message: 'etcdserver: invalid auth token' }),
        );
        return;
      case 'worker':
        if (this.#random.chance(0.5)) clock.after(there, apply);
        clock.after(back, () => answer(unclear('worker')));
        return;
      default:
        clock.after(there, () => {
          const result = apply();
          clock.after(back - there, () => answer(result));
        });
    }
  }

  /** `take` runs where the request reaches etcd; `answer` gets null where its sender can't know. */
  claim<T>(take: () => T, answer: (claimed: T | null) => void): void {
    const there = this.#delay();
    const back = this.#delay();
    const lost = !this.#over && this.#random.chance(0.1);
    if (this.down || (lost && this.#random.chance(0.5))) {
      this.#clock.after(there, () => answer(null));
      return;
    }
    this.#clock.after(there, () => {
      const claimed = take();
      this.#clock.after(back, () => answer(lost ? null : claimed));
    });
  }

  #fault(): keyof FaultRates | null {
    if (this.#over) return null;
    let roll = this.#random.next();
    for (const [fault, rate] of Object.entries(this.#rates) as [keyof FaultRates, number][]) {
      if (roll < rate) return fault;
      roll -= rate;
    }
    return null;
  }

  #delay(): number {
    return this.#random.skewed(0, this.#delayMsMax);
  }
}

/** Every seventh endpoint of the simulated host is a host endpoint. */
export function kindOf(endpoint: number): 0 | 1 {
  return endpoint % 7 === 6 ? 1 : 0;
}
