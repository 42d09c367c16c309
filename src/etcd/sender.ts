/** What a worker does with its lanes' transactions: each in its turn (turns.ts), and no faster than the rate allows (gate.ts). */
import type { TxnAnswer } from '../reporter/answers.js';
import { RateGate } from './gate.js';
import type { Turn, TxnResult } from './task.js';
import { Turns } from './turns.js';

export class Sender {
  readonly #turns = new Turns();
  readonly #gate: RateGate;
  readonly #transmit: (request: Uint8Array) => Promise<TxnAnswer>;

  /** `transmit` must not reject. */
  constructor(concurrency: number, transmit: (request: Uint8Array) => Promise<TxnAnswer>) {
    this.#gate = new RateGate(concurrency);
    this.#transmit = transmit;
  }

  send(turn: Turn, request: Uint8Array, perSecondMax: number): Promise<TxnResult> {
    return this.#turns.run(turn, () => {
      const queuedAtMs = performance.now();
      return this.#gate.run(perSecondMax, async () => {
        const startedAtMs = performance.now();
        const answer = await this.#transmit(request);
        return { answer, durationMs: performance.now() - startedAtMs, waitedMs: startedAtMs - queuedAtMs };
      });
    });
  }

  /** See Turns.withdraw(). */
  withdraw(lane: number, attempt: number): void {
    this.#turns.withdraw(lane, attempt);
  }
}
