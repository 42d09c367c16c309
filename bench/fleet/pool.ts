/**
 * The pool of a simulated host: the real transport with a connection of its own, behind the real gate, but in the
 * thread of all the hosts (a thread each would take 20 MiB for every host, and change nothing that etcd sees).
 */
import type { EtcdConnection } from '../../src/etcd/connection.js';
import { RateGate } from '../../src/etcd/gate.js';
import { type Rate, WorkerPool } from '../../src/etcd/pool.js';
import type { Turn, TxnResult } from '../../src/etcd/task.js';
import { TxnTransport } from '../../src/etcd/transport.js';
import { Turns } from '../../src/etcd/turns.js';

export class SameThreadPool extends WorkerPool {
  readonly #transport: TxnTransport;
  readonly #gate: RateGate;
  readonly #turns = new Turns();
  readonly #onSend: (nowMs: number) => void;
  /** No private field: the base's constructor sets it, before there are any. */
  declare private perSecondMax: number;

  constructor(connection: EtcdConnection, lanes: number, rate: Rate, onSend: (nowMs: number) => void) {
    super({ connection, lanes, workers: 1, rate, onFatal: () => undefined });
    this.#transport = new TxnTransport(connection);
    this.#gate = new RateGate(lanes);
    this.#onSend = onSend;
  }

  override async start(): Promise<void> {}

  override run(turn: Turn, request: Uint8Array): Promise<TxnResult> {
    return this.#turns.run(turn, () => {
      const queuedAtMs = performance.now();
      return this.#gate.run(this.perSecondMax, async () => {
        const startedAtMs = performance.now();
        this.#onSend(startedAtMs);
        const answer = await this.#transport.txn(request);
        return { answer, durationMs: performance.now() - startedAtMs, waitedMs: startedAtMs - queuedAtMs };
      });
    });
  }

  override withdraw(lane: number, attempt: number): void {
    this.#turns.withdraw(lane, attempt);
  }

  override setRate({ txnsPerSecond, burst }: Rate): void {
    this.perSecondMax = txnsPerSecond === 0 ? 0 : Math.ceil(txnsPerSecond + burst);
  }

  override async close(): Promise<void> {
    this.#transport.close();
  }
}
