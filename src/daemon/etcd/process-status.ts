/**
 * Neutron's heartbeat: it takes each put of the process status for a sign of life, and keeping the lease alone for none.
 * So it is put again and again, apart from the transactions' rate limit: the agent must not look dead in a storm.
 */
import type { Etcd3 } from 'etcd3';
import { claimKey, processStatusKeys, type Where } from '../../endpoints/key.js';
import { HeartbeatLease, putHeartbeat } from '../../etcd/heartbeat.js';
import { jitteredMs } from '../../reporter/backoff.js';
import type { Saying } from '../operate/saying.js';

export interface ProcessStatusOptions {
  readonly where: Where;
  readonly client: () => Etcd3;
  /** Empty: not claimed, and nothing is to be written. */
  readonly claim: () => Uint8Array;
  /** 0: never. */
  readonly intervalMs: number;
  readonly ttlMs: number;
  /** Of a call to etcd. */
  readonly deadlineMs: number;
  readonly saying: Saying;
  /** What wrote it so far, with other settings. */
  readonly before?: ProcessStatus;
}

/** After a failure it is tried again so soon. */
const againMs = 2000;

export class ProcessStatus {
  readonly #options: ProcessStatusOptions;
  readonly #lease: HeartbeatLease;
  #timer: NodeJS.Timeout | null = null;
  #stopped = false;
  /** What the last key holds as far as is known. */
  #before: Buffer | null = null;
  /** Sent as the first one of this process, and perhaps put; null: one is known to be put. */
  #firsts: Set<string> | null = new Set();

  constructor(options: ProcessStatusOptions) {
    this.#options = options;
    this.#lease = new HeartbeatLease(options.ttlMs, options.deadlineMs);
    if (options.before === undefined) return;
    this.#before = options.before.#before;
    this.#firsts = options.before.#firsts;
  }

  /** From now on; also to be called when the claim has been taken. */
  start(): void {
    if (this.#options.intervalMs === 0 || this.#stopped) return;
    this.#arm(0);
  }

  stop(): void {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  #arm(afterMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#beat(), afterMs);
    this.#timer.unref();
  }

  async #beat(): Promise<void> {
    const { intervalMs, saying } = this.#options;
    let nextMs = Math.min(jitteredMs(againMs, Math.random()), intervalMs);
    try {
      if (await this.#put()) {
        saying.over('process status');
        // A fleet must not beat as one, and none may be late.
        nextMs = intervalMs * (0.9 + 0.1 * Math.random());
      }
    } catch (error) {
      saying.once(
        'process status',
        { error: String(error) },
        "the process status could not be written: Neutron takes this host's agent for dead when it has not seen one for long; trying again",
      );
    }
    if (!this.#stopped) this.#arm(nextMs);
  }

  /** Whether it stands in etcd now. */
  async #put(): Promise<boolean> {
    const { where, client: current, claim: held } = this.#options;
    const claim = held();
    if (claim.length === 0) return false;
    const client = current();
    const lease = await this.#lease.alive(client);
    const { expiring, last } = processStatusKeys(where);
    // The first time what stands there is not known; after an unclear one, it may be that. Else nobody but us writes.
    for (let attempt = 0; attempt < 3; attempt++) {
      const value = this.#value();
      this.#firsts?.add(value.toString());
      const answer = await putHeartbeat(client, lease, {
        expiringKey: expiring,
        lastKey: last,
        claimKey: claimKey(where),
        claim,
        value,
        before: this.#before,
      });
      if (answer.kind === 'notOurs') return false;
      if (answer.kind === 'put') {
        this.#before = value;
        this.#firsts = null;
        return true;
      }
      this.#before = answer.found;
      if (answer.found !== null && this.#firsts?.has(answer.found.toString())) this.#firsts = null;
    }
    return false;
  }

  /** `first_update` is true once per process: by it Neutron learns that the agent has started anew. */
  #value(): Buffer {
    const time = new Date().toISOString().replace(/\.\d+Z$/, 'Z'); // Neutron's driver parses no fractions
    const uptime = Math.round(process.uptime() * 10) / 10;
    return Buffer.from(JSON.stringify({ time, uptime, first_update: this.#firsts !== null }));
  }
}
