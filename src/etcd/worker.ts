/** A worker thread: carries transactions to etcd over connections of its own. pool.ts starts it. */
import { workerData } from 'node:worker_threads';
import { fail, requestedFault } from './faults.js';
import { Outbox } from './outbox.js';
import { Sender } from './sender.js';
import type { Reply, Request, Service, Task, TxnResult, TxnTask, WorkerSettings } from './task.js';
import { TxnTransport } from './transport.js';

// p-queue measures durations by the wall clock: set back by an hour, it would hold every transaction for an
// hour. In this thread, whose only work they are, the clock never goes back. (TLS does not ask it for the date.)
Date.now = () => Math.floor(performance.timeOrigin + performance.now());

const settings = workerData as WorkerSettings;
const transport = new TxnTransport(settings.connection);
const sender = new Sender(settings.concurrency, (request) => transport.txn(request));

/** Rejects with the first task that fails, which nothing should: then nobody knows what state this thread is in. */
export default function serve({ port }: Service): Promise<never> {
  const outbox = new Outbox<Reply>(port);
  return new Promise((_, reject) => {
    port.on('message', (requests: readonly Request[]) => {
      for (const { id, task } of requests)
        carryOut(task).then((result) => outbox.post({ id, result }), reject);
    });
  });
}

async function carryOut(task: Task): Promise<TxnResult | null> {
  switch (task.kind) {
    case 'txn':
      return carryOutTxn(task);
    case 'withdraw':
      sender.withdraw(task.lane, task.attempt);
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
  return sender.send(turn, request, perSecondMax);
}
