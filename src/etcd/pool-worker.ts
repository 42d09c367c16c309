/**
 * One worker thread of the pool, from its start to its end: a Piscina with a single thread. (One Piscina with several
 * cannot end exactly the thread that hangs: its abort signals allow only one task at a time on each; and one thread
 * that fails at its start makes it stop replacing any.) It is never repaired: whatever goes wrong ends it.
 */
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { messageOf } from './classify.js';
import { Outbox } from './outbox.js';
import type { Reply, Request, Service, Task, TxnResult, TxnTask, WorkerSettings } from './task.js';

export interface PoolWorkerOptions {
  readonly settings: WorkerSettings;
  readonly url: URL;
  readonly memoryMiB: number;
  /** One that shows no sign of life for so long, though it has something to do, hangs. */
  readonly hangMs: number;
  /** Called once, when it ends without having been told to. */
  readonly onDied: (worker: PoolWorker, why: string) => void;
}

interface Waiting {
  readonly resolve: (result: TxnResult | null) => void;
  readonly reject: (error: Error) => void;
}

export class PoolWorker {
  readonly #options: PoolWorkerOptions;
  readonly #piscina: Piscina<Service, never>;
  /** Tasks go by a port of their own: as tasks of Piscina's, they cost the main thread a fifth more (docs/performance.md). */
  readonly #port: MessagePort;
  readonly #outbox: Outbox<Request>;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 0;
  /** Transactions that it has in hand. */
  #underWay = 0;
  /** When it was asked for a sign of life that has not come yet. */
  #askedAtMs: number | null = null;
  /** Why it has ended; null: it lives. */
  #ended: string | null = null;
  #onIdle: (() => void) | null = null;
  #destroyed: Promise<void> | null = null;

  constructor(options: PoolWorkerOptions) {
    this.#options = options;
    const { settings, url, memoryMiB } = options;
    this.#piscina = new Piscina({
      filename: url.href,
      minThreads: 1,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      // 'sync' would put an idle thread to sleep: etcd's pings and hang-ups would go unseen.
      atomics: 'disabled',
      recordTiming: false,
      workerHistogram: false,
      workerData: settings,
      resourceLimits: { maxOldGenerationSizeMb: memoryMiB },
    });
    this.#piscina.on('error', (error) => this.#die(messageOf(error)));
    // Piscina tells this first, and only then why, if there was an error. Without one, the thread has exited.
    this.#piscina.on('workerDestroy', () => setImmediate(() => this.#die('it exited')));
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    this.#outbox = new Outbox(port1);
    port1.on('message', (replies: readonly Reply[]) => {
      for (const { id, result } of replies) {
        this.#waiting.get(id)?.resolve(result); // closed, it still tells what it has heard before
        this.#waiting.delete(id);
      }
    });
    this.#piscina
      .run({ port: port2 }, { transferList: [port2] })
      .catch((error) => this.#die(messageOf(error)));
  }

  /** Rejects where the worker ends before the transaction does. */
  async run(task: TxnTask): Promise<TxnResult> {
    this.#underWay++;
    try {
      return (await this.#do(task))!;
    } finally {
      this.#underWay--;
      if (this.#underWay === 0) this.#onIdle?.();
    }
  }

  /** See Turns.withdraw(). */
  withdraw(lane: number, attempt: number): void {
    this.#do({ kind: 'withdraw', lane, attempt }).catch(() => undefined); // it has nothing any more
  }

  /** Resolves when it has come to it; rejects where it ends before. */
  async ping(): Promise<void> {
    this.#askedAtMs = performance.now();
    await this.#do({ kind: 'ping' });
    this.#askedAtMs = null;
  }

  /** Ends it if it hangs. */
  check(nowMs: number): void {
    const { hangMs } = this.#options;
    if (this.#askedAtMs === null) {
      if (this.#underWay > 0) this.ping().catch(() => undefined); // whoever awaits its transactions hears of that
    } else if (nowMs - this.#askedAtMs >= hangMs) {
      this.#die(`it has not answered for ${hangMs} ms`);
    }
  }

  #do(task: Task): Promise<TxnResult | null> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== null) {
        reject(new Error(this.#ended));
        return;
      }
      const id = this.#nextId++;
      this.#waiting.set(id, { resolve, reject });
      if (task.kind === 'txn') this.#outbox.post({ id, task }, task.request.buffer);
      else this.#outbox.post({ id, task });
    });
  }

  /** Lets it finish what it has, for so long, then ends it. */
  async retire(deadlineMs: number): Promise<void> {
    if (this.#underWay > 0 && this.#ended === null) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
        timer = setTimeout(resolve, deadlineMs);
      });
      clearTimeout(timer);
    }
    this.#end('it was told to end');
    await this.#destroy();
  }

  #die(why: string): void {
    if (this.#ended !== null) return;
    this.#end(why);
    this.#options.onDied(this, why);
    void this.#destroy(); // it waits for the thread's end and does not reject
  }

  #end(why: string): void {
    this.#ended ??= why;
    this.#port.close();
    for (const { reject } of this.#waiting.values()) reject(new Error(this.#ended));
    this.#waiting.clear();
  }

  /** Once: a second destroy() before the thread has exited makes Piscina take the exit for a failure, and start another thread. */
  #destroy(): Promise<void> {
    this.#destroyed ??= this.#piscina.destroy();
    return this.#destroyed;
  }
}
