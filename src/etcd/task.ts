/** What the main thread and the workers say to each other: plain values, which are copied, but for requests (TxnTask). */
import type { MessagePort } from 'node:worker_threads';
import type { TxnAnswer } from '../reporter/answers.js';
import type { EtcdConnection } from './connection.js';

/** A worker's workerData. */
export interface WorkerSettings {
  readonly connection: EtcdConnection;
  /** Transactions at a time: no more than there are lanes. */
  readonly concurrency: number;
  /** Whether tasks may ask for faults; see faults.ts. */
  readonly faults: boolean;
}

/** Ways for a worker to fail, for tests. */
export type WorkerFault = 'throw' | 'throwOutside' | 'exit' | 'outOfMemory' | 'hang';

/** Which of its lane's transactions it is, and which one it follows; see the send effect in reporter/effects.ts. */
export interface Turn {
  readonly lane: number;
  readonly attempt: number;
  readonly after: number | null;
}

export interface TxnTask {
  readonly kind: 'txn';
  readonly turn: Turn;
  /** Handed over, not copied: whoever had it has it no more. */
  readonly request: Uint8Array<ArrayBuffer>;
  /** The most that this worker may send in any second at present; 0: no limit. */
  readonly perSecondMax: number;
  readonly fault?: WorkerFault;
}

export type Task =
  | TxnTask
  /** Has one that has not been sent answer `notSent`. */
  | { readonly kind: 'withdraw'; readonly lane: number; readonly attempt: number }
  /** Only show that the worker is there. */
  | { readonly kind: 'ping' };

/** What a worker is started with: its task lasts as long as it does, and tasks and their results go by this port. */
export interface Service {
  readonly port: MessagePort;
}

export interface Request {
  readonly id: number;
  readonly task: Task;
}

export interface Reply {
  readonly id: number;
  readonly result: TxnResult | null;
}

export interface TxnResult {
  readonly answer: TxnAnswer;
  /** Time at etcd. */
  readonly durationMs: number;
  /** Time that the rate held it back in the worker. */
  readonly waitedMs: number;
}
