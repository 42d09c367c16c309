/** A simulated host: interfaces that flap, flapd's lives one after another, a model etcd, and everything that goes wrong. */

import type { EndpointIndex, EndpointKind } from '../../../src/endpoints/id.js';
import { Status } from '../../../src/endpoints/status.js';
import type { Txn } from '../../../src/reporter/effects.js';
import { catchUpShare } from '../../../src/reporter/schedule.js';
import { Clock } from './clock.js';
import { ModelDisk } from './disk.js';
import { ModelEtcd } from './etcd.js';
import { Faults, kindOf } from './faults.js';
import { Instance } from './instance.js';
import { type Accepted, Oracle } from './oracle.js';
import { makePlan, type Plan } from './plan.js';
import { Random } from './random.js';

/** Virtual time by which a world without faults must have come to rest. */
const settleMsMax = 24 * 3600 * 1000;
/** Longer than a denied lane waits, and than a confirming write does. */
const restMs = 50_000;

export class World {
  readonly random: Random;
  readonly plan: Plan;
  readonly clock = new Clock();
  readonly etcd = new ModelEtcd();
  readonly oracle = new Oracle();
  readonly faults: Faults;
  /** What each endpoint's status really is. */
  readonly actual: Status[];
  /** Seqs that an instance knows to be committed. */
  readonly acknowledged = new Set<number>();
  readonly problems: string[] = [];
  current: Instance;
  #lives = 0;
  #setBacks = 0;
  readonly #ousted: Instance[] = [];
  #lastClaim: { instance: Instance; epoch: number } | null = null;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.plan = makePlan(this.random);
    this.faults = new Faults(this.clock, this.etcd, this.random, this.plan.rates, this.plan.delayMsMax);
    this.actual = Array.from({ length: this.plan.endpoints }, () =>
      this.random.chance(0.5) ? Status.up : this.random.chance(0.5) ? Status.down : Status.removed,
    );
    for (let i = 0; i < this.plan.poisoned; i++) {
      this.etcd.poisoned.add(this.random.below(this.plan.endpoints) as EndpointIndex);
    }
    this.current = this.#start(new ModelDisk());
  }

  kind(endpoint: EndpointIndex): EndpointKind {
    return kindOf(endpoint) === 0 ? 'workload' : 'host';
  }

  keyBytes(endpoint: EndpointIndex): number {
    return 100 + (endpoint % 50);
  }

  fromDisk(disk: ModelDisk, seq: number): Accepted | undefined {
    for (const record of disk.records) {
      if (record.kind === 'transition' && record.accepted.seq === seq) return record.accepted;
    }
    return undefined;
  }

  /** The claim went to this instance: whatever another one still had is lost with its memory, and none of it may follow. */
  claimed(instance: Instance, epoch: number): void {
    const before = this.#lastClaim?.instance;
    this.#lastClaim = { instance, epoch };
    if (before === undefined || before === instance || before.disk === instance.disk) return;
    this.#giveUp(before);
    this.#ousted.push(before);
  }

  /** Checks a transaction as it leaves the core. */
  checkSend(instance: Instance, txn: Txn): void {
    const { maxOps, watchBytesMax } = this.plan.reporter.txn;
    if (txn.endpoints.length > maxOps - 1) this.problems.push('more operations than allowed');
    if (new Set(txn.endpoints.map(kindOf)).size > 1) this.problems.push('two kinds in one transaction');
    if (watchBytesMax > 0 && txn.endpoints.length > 1) {
      let bytes = 130;
      for (const endpoint of txn.endpoints)
        if (kindOf(endpoint) === 0) bytes += 134 + 4 * Math.ceil(this.keyBytes(endpoint) / 3);
      // 134 counts a value with every deletion too: what remains open is at most that.
      const deletions = txn.statuses.filter((status) => status !== Status.down).length;
      if (bytes - 24 * deletions > watchBytesMax) this.problems.push(`a watch answer of ${bytes} bytes`);
    }
    if (instance.fencedBy !== null) this.problems.push('sent after it was fenced');
    for (const seq of txn.seqs) {
      if (seq > instance.disk.syncedSeq) this.problems.push(`seq ${seq} was sent before it was durable`);
    }
  }

  /** Checks a transaction as it leaves the host. */
  checkTransmit(instance: Instance, txn: Txn): void {
    this.#checkRate(instance);
    this.#checkTurn(instance, txn);
  }

  /** The token bucket: never more than the burst and what the rate has brought since the start. */
  #checkRate(instance: Instance): void {
    const { txnsPerSecond, burst } = this.plan.reporter.limits;
    instance.sent++;
    const most = burst + (txnsPerSecond * (this.clock.nowMs - instance.startedAtMs)) / 1000 + 1e-3;
    if (txnsPerSecond > 0 && instance.sent > most)
      this.problems.push(`${instance.sent} transactions, at most ${most} allowed`);
  }

  /** G4, where nothing goes wrong: an endpoint goes with its lane's next transaction, or the next that has room. */
  #checkTurn(instance: Instance, txn: Txn): void {
    const { plan } = this;
    const { maxOps, bytesMax, watchBytesMax } = plan.reporter.txn;
    const count = (instance.laneTxns.get(txn.lane) ?? 0) + 1;
    instance.laneTxns.set(txn.lane, count);
    const undisturbed =
      plan.quiet &&
      plan.reporter.sackMax === 1024 &&
      plan.reporter.schedule.endpointDelayMs === 0 &&
      bytesMax > 300;
    if (!undisturbed) return;
    const room = Math.min(maxOps - 1, watchBytesMax > 0 ? 4 : Number.POSITIVE_INFINITY);
    const most = 2 + 2 * Math.ceil(plan.endpoints / plan.reporter.lanes / room);
    for (const seq of txn.seqs) {
      const readyAt = instance.readyAt.get(seq);
      if (readyAt !== undefined && count - readyAt > most) {
        this.problems.push(
          `seq ${seq} was overtaken by ${count - readyAt} transactions of its lane, at most ${most} allowed`,
        );
      }
    }
  }

  /** Runs to the end; returns what is wrong. */
  run(): string[] {
    this.#scheduleTransitions();
    const endMs = this.plan.transitions * this.plan.gapMs + 1000;
    this.#scheduleFaults(endMs);
    this.clock.runUntil(endMs);
    this.faults.end();
    this.etcd.maxOps = 128;
    if (!this.current.alive) this.current = this.#start(this.current.disk);
    this.#settle(
      'after the faults',
      () => this.current.reporter.queues.pending === 0 && this.current.reporter.state === 'writing',
    );
    // The first may find that etcd was set back, which ends in a new claim and a resync of its own.
    // And where the queues were full, each takes up as much as they hold.
    let corrected = Number.POSITIVE_INFINITY;
    for (let round = 0; (corrected > 0 || round < 3) && round < 100; round++) {
      let done = false;
      this.current.resync((corrections) => {
        corrected = corrections ?? Number.POSITIVE_INFINITY;
        done = true;
      });
      this.#settle('resync', () => done && this.current.reporter.queues.pending === 0);
      this.clock.runUntil(this.clock.nowMs + restMs);
    }
    this.#check();
    return this.problems;
  }

  #settle(what: string, settled: () => boolean): void {
    const untilMs = this.clock.nowMs + settleMsMax;
    while (!settled()) {
      if (this.clock.step(untilMs)) continue;
      const { queues, state, lanesInflight } = this.current.reporter;
      this.problems.push(
        `${what}: stuck with ${queues.pending} pending, ${lanesInflight} in flight, ${state}`,
      );
      return;
    }
  }

  #check(): void {
    const { plan, etcd, oracle } = this;
    // It may have gone on accepting until it noticed.
    for (const instance of this.#ousted) if (instance.disk !== this.current.disk) this.#giveUp(instance);
    // Nothing of these can be written; that they hold up nobody else is what is checked.
    for (const entry of oracle.accepted) {
      if (etcd.poisoned.has(entry.endpoint) && entry.expected === 'must') entry.expected = 'may';
    }
    this.problems.push(...oracle.check(etcd, plan.endpoints));
    for (let endpoint = 0 as EndpointIndex; endpoint < plan.endpoints; endpoint++) {
      if (etcd.poisoned.has(endpoint)) continue;
      const value = etcd.values.get(endpoint) ?? Status.removed;
      if (value !== this.actual[endpoint]) {
        this.problems.push(`endpoint ${endpoint} ends as ${value}, really ${this.actual[endpoint]}`);
      }
      this.#checkEpochs(endpoint);
      this.#checkComebacks(endpoint);
      this.#checkSpacing(endpoint);
      this.#checkConfirmation(endpoint);
    }
  }

  /** G5: once a higher epoch has written, no lower one does. */
  #checkEpochs(endpoint: EndpointIndex): void {
    let epoch = 0;
    for (const revision of this.etcd.history(endpoint)) {
      if (revision.epoch < epoch)
        this.problems.push(`endpoint ${endpoint}: epoch ${revision.epoch} after ${epoch}`);
      epoch = Math.max(epoch, revision.epoch);
    }
  }

  /** C31: what comes back after a removal begins with down. */
  #checkComebacks(endpoint: EndpointIndex): void {
    const { journalLosses, setBacks, takeovers } = this.plan;
    if (journalLosses + setBacks + takeovers > 0) return; // nobody may know of the removal then
    const history = this.etcd.history(endpoint);
    for (let i = 1; i < history.length; i++) {
      if (history[i - 1]!.status === Status.removed && history[i]!.status === Status.up) {
        this.problems.push(
          `endpoint ${endpoint}: up right after a removal, revision ${history[i]!.revision}`,
        );
      }
    }
  }

  #checkSpacing(endpoint: EndpointIndex): void {
    const { endpointDelayMs, endpointCatchUpMs } = this.plan.reporter.schedule;
    if (
      endpointDelayMs === 0 ||
      this.plan.takeovers > 0 ||
      this.plan.setBacks > 0 ||
      this.plan.journalLosses > 0
    )
      return;
    const all = this.oracle.accepted.filter((entry) => entry.endpoint === endpoint).length;
    const leastMs = Math.min(endpointDelayMs, (catchUpShare * endpointCatchUpMs) / Math.max(1, all));
    const history = this.etcd.history(endpoint);
    for (let i = 1; i < history.length; i++) {
      const apartMs = history[i]!.atMs - history[i - 1]!.atMs;
      if (apartMs < leastMs - 1e-6) {
        this.problems.push(
          `endpoint ${endpoint}: revisions ${apartMs} ms apart, at least ${leastMs} expected`,
        );
      }
    }
  }

  /** Section 9: a final value that came too close to the one before is put once more. */
  #checkConfirmation(endpoint: EndpointIndex): void {
    const { schedule } = this.plan.reporter;
    const disturbed = this.plan.journalLosses + this.plan.takeovers + this.plan.setBacks > 0;
    if (!schedule.confirm || disturbed || kindOf(endpoint) !== 0) return;
    const history = this.etcd.history(endpoint);
    const confirmed = history.findLastIndex((revision) => Number.isNaN(revision.seq));
    const last = history.findLastIndex((revision) => !Number.isNaN(revision.seq));
    if (last < 1 || history[last]!.status === Status.removed) return;
    if (history[last]!.atMs - history[last - 1]!.atMs < 500 && confirmed < last) {
      this.problems.push(
        `endpoint ${endpoint}: no confirming write after revision ${history[last]!.revision}`,
      );
    }
  }

  #start(disk: ModelDisk): Instance {
    this.#lives++;
    return new Instance(this, this.#lives, disk);
  }

  /** What this instance had accepted and etcd has not will never come: its memory and its journal are out of the game. */
  #giveUp(instance: Instance): void {
    const written = this.#writtenSeqs();
    for (const record of instance.disk.records) {
      if (record.kind === 'transition' && !written.has(record.accepted.seq))
        record.accepted.expected = 'never';
    }
  }

  #writtenSeqs(): Set<number> {
    const written = new Set<number>();
    for (let endpoint = 0 as EndpointIndex; endpoint < this.plan.endpoints; endpoint++) {
      for (const { seq } of this.etcd.history(endpoint)) written.add(seq);
    }
    return written;
  }

  #scheduleTransitions(): void {
    const { plan, random, clock } = this;
    let atMs = 0;
    for (let i = 0; i < plan.transitions; i++) {
      atMs += plan.gapMs * 2 * random.next();
      clock.at(Math.min(atMs, plan.transitions * plan.gapMs + 500), () => this.#flap());
    }
  }

  #flap(): void {
    const { plan, random, actual } = this;
    const endpoint = (
      plan.hot > 0 && random.chance(plan.hot) ? 0 : random.below(plan.endpoints)
    ) as EndpointIndex;
    const before = actual[endpoint]!;
    let status: Status = before === Status.up ? Status.down : Status.up;
    if (plan.removals && before !== Status.removed && random.chance(0.1)) status = Status.removed;
    actual[endpoint] = status;
    for (const instance of this.#observers()) instance.observe(endpoint, status);
  }

  /** A fenced instance may live on for a moment: it sees what the host does as well. */
  #observers(): Instance[] {
    const other = this.#lastClaim?.instance;
    return other !== undefined && other !== this.current ? [other, this.current] : [this.current];
  }

  #scheduleFaults(endMs: number): void {
    const { plan, random, clock, faults, etcd } = this;
    const times = (count: number, action: () => void): void => {
      for (let i = 0; i < count; i++) clock.at(random.next() * endMs, action);
    };
    times(plan.crashes, () => this.#crash());
    times(plan.journalLosses, () => {
      this.current.kill();
      this.current.disk.rollBack(random.chance(0.5) ? 0 : random.below(this.current.disk.records.length + 1));
      this.#restartLater();
    });
    times(plan.outages, () => {
      faults.down = true;
      clock.after(random.below(30_000), () => {
        faults.down = false;
      });
    });
    times(plan.setBacks, () => this.#setBackLater());
    times(plan.takeovers, () => {
      const before = this.current;
      // One that does not know of its claim yet would take it once more.
      if (this.#lastClaim?.instance !== before || before.epoch === 0) return;
      this.current = this.#start(new ModelDisk());
      clock.after(5000, () => before.alive && before !== this.current && before.reporter.probe());
    });
    times(plan.denials, () => {
      const kind = random.below(2);
      faults.denied.add(kind);
      clock.after(random.below(20_000), () => faults.denied.delete(kind));
    });
    times(plan.limitChanges, () => {
      etcd.maxOps = 2 + random.below(20);
    });
  }

  #crash(): void {
    this.current.kill();
    this.#restartLater();
  }

  #restartLater(): void {
    const killed = this.current;
    this.clock.after(this.random.below(500), () => {
      if (this.current === killed) this.current = this.#start(killed.disk);
    });
  }

  /** etcd is put back to how it was some time before: what it had since then is lost with it. */
  #setBackLater(): void {
    const { clock, etcd, random } = this;
    const setBacks = this.#setBacks;
    const snapshot = random.chance(0.2) ? new ModelEtcd().snapshot() : etcd.snapshot();
    clock.after(random.below(2000), () => {
      // A snapshot of a course that was itself set back holds claims that nobody living knows: not told from a rival's.
      if (this.#setBacks !== setBacks) return;
      this.#setBacks++;
      const had = this.#writtenSeqs();
      etcd.restore(snapshot);
      const has = this.#writtenSeqs();
      for (const entry of this.oracle.accepted) {
        if (had.has(entry.seq) && !has.has(entry.seq) && entry.expected === 'must') entry.expected = 'may';
      }
    });
  }
}
