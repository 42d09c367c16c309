/** A worker thread: carries transactions to etcd over connections of its own. pool.ts starts it. */
import { workerData } from 'node:worker_threads';
import { fail, requestedFault } from './faults.js';
import { RateGate } from './gate.js';
import type { TxnResult, TxnTask, WorkerSettings } from './task.js';
import { TxnTransport } from './transport.js';

// p-queue and grpc-js measure durations by the wall clock: set back by an hour, it would hold every transaction for an
// hour. In this thread, whose only work they are, the clock never goes back. (TLS does not ask it for the date.)
Date.now = () => Math.floor(performance.timeOrigin + performance.now());

const settings = workerData as WorkerSettings;
const transport = new TxnTransport(settings.connection);
const gate = new RateGate(settings.concurrency);

export default async function carryOut(task: TxnTask): Promise<TxnResult> {
  const { request, perSecondMax } = task;
  if (settings.faults) {
    const fault = task.fault ?? (request === null ? undefined : requestedFault(process.env));
    if (fault !== undefined) fail(fault);
  }
  if (request === null) return { answer: { kind: 'committed', revision: 0 }, durationMs: 0, waitedMs: 0 };
  const queuedAtMs = performance.now();
  return gate.run(perSecondMax, async () => {
    const startedAtMs = performance.now();
    const answer = await transport.txn(request);
    return { answer, durationMs: performance.now() - startedAtMs, waitedMs: startedAtMs - queuedAtMs };
  });
}
