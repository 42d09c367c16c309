/** A worker thread: carries transactions to etcd over connections of its own. pool.ts starts it. */
import { workerData } from 'node:worker_threads';
import { fail, requestedFault } from './faults.js';
import { RateGate } from './gate.js';
import type { Reply, Request, Service, Task, TxnResult, TxnTask, WorkerSettings } from './task.js';
import { TxnTransport } from './transport.js';
import { Turns } from './turns.js';

// p-queue and grpc-js measure durations by the wall clock: set back by an hour, it would hold every transaction for an
// hour. In this thread, whose only work they are, the clock never goes back. (TLS does not ask it for the date.)
Date.now = () => Math.floor(performance.timeOrigin + performance.now());

const settings = workerData as WorkerSettings;
const transport = new TxnTransport(settings.connection);
const gate = new RateGate(settings.concurrency);
const turns = new Turns();

/** Rejects with the first task that fails, which nothing should: then nobody knows what state this thread is in. */
export default function serve({ port }: Service): Promise<never> {
  return new Promise((_, reject) => {
    port.on('message', ({ id, task }: Request) => {
      carryOut(task).then((result) => port.postMessage({ id, result } satisfies Reply), reject);
    });
  });
}

async function carryOut(task: Task): Promise<TxnResult | null> {
  switch (task.kind) {
    case 'txn':
      return carryOutTxn(task);
    case 'withdraw':
      turns.withdraw(task.lane, task.attempt);
      return null;
    case 'ping':
      return null;
  }
}

async function carryOutTxn({ turn, request, perSecondMax, fault }: TxnTask): Promise<TxnResult> {
  if (settings.faults) {
    const wanted = fault ?? requestedFault(process.env);
    if (wanted !== undefined) fail(wanted);
  }
  return turns.run(turn, () => {
    const queuedAtMs = performance.now();
    return gate.run(perSecondMax, async () => {
      const startedAtMs = performance.now();
      const answer = await transport.txn(request);
      return { answer, durationMs: performance.now() - startedAtMs, waitedMs: startedAtMs - queuedAtMs };
    });
  });
}
