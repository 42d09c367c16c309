/**
 * The pool of a simulated host: the real transport with a connection of its own, behind the real gate, but in the
 * thread of all the hosts (a thread each would take 20 MiB for every host, and change nothing that etcd sees).
 */

import type { EtcdConnection } from '../../src/etcd/connection.js';
import { type Rate, WorkerPool } from '../../src/etcd/pool.js';
import { Sender } from '../../src/etcd/sender.js';
import type { Turn, TxnResult } from '../../src/etcd/task.js';
import { TxnTransport } from '../../src/etcd/transport.js';

export class SameThreadPool extends WorkerPool {
  readonly #transport: TxnTransport;
  readonly #sender: Sender;
  /** No private field: the base's constructor sets it, before there are any. */
  declare private perSecondMax: number;

  constructor(connection: EtcdConnection, lanes: number, rate: Rate, onSend: (nowMs: number) => void) {
    super({ connection, lanes, workers: 1, rate, onFatal: () => undefined });
    this.#transport = new TxnTransport(connection);
    this.#sender = new Sender(lanes, (request) => {
      onSend(performance.now());
      return this.#transport.txn(request);
    });
  }

  override async start(): Promise<void> {}

  override run(turn: Turn, request: Uint8Array): Promise<TxnResult> {
    return this.#sender.send(turn, request, this.perSecondMax);
  }

  override withdraw(lane: number, attempt: number): void {
    this.#sender.withdraw(lane, attempt);
  }

  override setRate({ txnsPerSecond, burst }: Rate): void {
    this.perSecondMax = txnsPerSecond === 0 ? 0 : Math.ceil(txnsPerSecond + burst);
  }

  override async close(): Promise<void> {
    this.#transport.close();
  }
}
