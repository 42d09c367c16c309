/** One life of flapd in the simulated world: the real core, with the model's disk, network and clock around it. */
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Source, Status } from '../../../src/endpoints/status.js';
import type { TxnAnswer } from '../../../src/reporter/answers.js';
import { parseClaim } from '../../../src/reporter/claim.js';
import { covers, decodeCursor } from '../../../src/reporter/cursor.js';
import type { Effect, Txn } from '../../../src/reporter/effects.js';
import { Reporter } from '../../../src/reporter/reporter.js';
import type { ModelDisk } from './disk.js';
import type { Accepted } from './oracle.js';
import { ModelWorker } from './worker.js';
import type { World } from './world.js';

export class Instance {
  readonly life: number;
  readonly reporter: Reporter;
  readonly disk: ModelDisk;
  alive = true;
  readonly startedAtMs: number;
  /** Transactions so far, in all and by lane. */
  sent = 0;
  readonly laneTxns = new Map<number, number>();
  /** How many its lane had sent when a transition became the next one of its endpoint, by seq. */
  readonly readyAt = new Map<number, number>();
  fencedBy: string | null = null;
  epoch = 0;
  readonly #world: World;
  readonly #worker: ModelWorker;
  /** What it accepted, by seq, in this life. */
  readonly #accepted = new Map<number, Accepted>();
  /** First transitions of endpoints of which nothing was known, accepted before etcd's keys were listed. */
  readonly #initial = new Map<EndpointIndex, Accepted>();
  /** What an earlier life left, by endpoint in order. */
  readonly #left = new Map<EndpointIndex, Accepted[]>();
  #seeded = false;
  #observing = false;
  #armedMs = Number.POSITIVE_INFINITY;
  #syncing = false;

  constructor(world: World, life: number, disk: ModelDisk) {
    this.#world = world;
    this.life = life;
    this.disk = disk;
    const { plan, random, clock } = world;
    this.startedAtMs = clock.nowMs;
    this.#worker = new ModelWorker(
      world,
      (txn, answer) => {
        if (!this.alive) return;
        world.checkTransmit(this, txn);
        world.faults.send(txn, this.#epochOf(txn), answer);
      },
      (txn) => world.etcd.txn(txn, txn.seqs, this.#epochOf(txn), clock.nowMs),
    );
    this.reporter = new Reporter({
      ...plan.reporter,
      random: () => random.next(),
      append: (seq, endpoint, status, _source, initial) => this.#append(seq, endpoint, status, initial),
    });
    for (let endpoint = 0 as EndpointIndex; endpoint < plan.endpoints; endpoint++) {
      this.reporter.queues.addEndpoint(
        endpoint,
        world.kind(endpoint),
        endpoint % plan.reporter.lanes,
        world.keyBytes(endpoint),
      );
    }
    for (const [lane, value] of disk.cursors()) this.reporter.queues.restoreCursor(lane, value);
    for (const [endpoint, status] of disk.statuses())
      this.reporter.queues.restoreStatus(endpoint, status, clock.nowMs);
    for (const record of disk.records) {
      if (record.kind !== 'transition') continue;
      const { seq, endpoint, status, initial } = record.accepted;
      this.reporter.queues.restoreTransition(seq, endpoint, status, initial, clock.nowMs);
      this.#left.set(endpoint, [...(this.#left.get(endpoint) ?? []), record.accepted]);
    }
    // A journal lost and a clock set back together are survived, as long as no crash follows before the claim is taken.
    const clockSetBack =
      plan.journalLosses === 1 && plan.crashes + plan.takeovers === 0 && random.chance(0.5);
    const firstSeq = !clockSetBack ? Math.floor(clock.nowMs * 1000) : 0;
    this.reporter.queues.restored(disk.lastSeq, firstSeq, clock.nowMs);
    for (const endpoint of disk.unconfirmed()) this.reporter.queues.restoreUnconfirmed(endpoint, clock.nowMs);
    if (random.chance(0.5)) this.startObserving();
    this.poll();
  }

  /** The sources start: each tells what exists, then what changes. */
  startObserving(): void {
    if (this.#observing) return;
    this.#observing = true;
    this.#world.actual.forEach((status, endpoint) => {
      const gone =
        status === Status.removed && this.reporter.queues.status(endpoint as EndpointIndex) === undefined;
      if (!gone) this.observe(endpoint as EndpointIndex, status);
    });
  }

  observe(endpoint: EndpointIndex, status: Status): void {
    if (!this.alive || !this.#observing) return;
    const nothingKnown = this.reporter.queues.status(endpoint) === undefined;
    const before = this.reporter.queues.lastSeq;
    this.reporter.observe(endpoint, status, Source.netlink, this.#world.clock.nowMs);
    const accepted =
      this.reporter.queues.lastSeq > before ? this.#accepted.get(this.reporter.queues.lastSeq)! : undefined;
    if (accepted !== undefined && accepted.initial !== (nothingKnown && !this.#seeded)) {
      throw new Error(`seq ${accepted.seq} wrongly marked as a first sight: ${accepted.initial}`);
    }
    this.poll();
  }

  kill(): void {
    this.alive = false;
    this.disk.crash(this.#world.random);
  }

  poll(): void {
    if (!this.alive) return;
    const { clock } = this.#world;
    for (const effect of this.reporter.poll(clock.nowMs)) this.#carryOut(effect);
  }

  /** `then` gets the number of corrections; null: the list was refused. */
  resync(then?: (corrections: number | null) => void): void {
    const { clock, etcd, random } = this.#world;
    this.reporter.beginResync();
    const sendAfterMs = random.below(20);
    clock.after(sendAfterMs, () => {
      const listed = new Map<EndpointIndex, Status | null>(etcd.values);
      const { revision } = etcd;
      clock.after(random.below(20), () => {
        if (!this.alive) return;
        const result = this.reporter.resync(listed, revision, true, clock.nowMs);
        this.poll();
        then?.(result === null ? null : result.put + result.repaired + result.deleted);
      });
    });
  }

  #append(seq: number, endpoint: EndpointIndex, status: Status, initial: boolean): void {
    const { oracle, clock, random } = this.#world;
    const accepted = oracle.accept(this.life, seq, endpoint, status, initial);
    this.#accepted.set(seq, accepted);
    if (initial) this.#initial.set(endpoint, accepted);
    this.disk.append({ kind: 'transition', accepted });
    if (this.#syncing) return;
    this.#syncing = true;
    clock.after(random.below(5), () => {
      if (!this.alive) return;
      this.#syncing = false;
      this.#noteReady();
      this.reporter.durable(this.disk.sync(), clock.nowMs);
      this.poll();
    });
  }

  #noteReady(): void {
    const { acknowledged, plan } = this.#world;
    const before = this.disk.syncedSeq;
    const waiting = new Set<EndpointIndex>();
    for (const [seq, { endpoint }] of this.#accepted) {
      if (acknowledged.has(seq)) continue;
      const lane = endpoint % plan.reporter.lanes;
      if (seq > before && !waiting.has(endpoint)) this.readyAt.set(seq, this.laneTxns.get(lane) ?? 0);
      waiting.add(endpoint);
    }
  }

  #carryOut(effect: Effect): void {
    const { clock } = this.#world;
    switch (effect.kind) {
      case 'arm':
        if (effect.atMs >= this.#armedMs && this.#armedMs > clock.nowMs) return;
        this.#armedMs = effect.atMs;
        clock.at(effect.atMs, () => {
          if (clock.nowMs >= this.#armedMs) this.#armedMs = Number.POSITIVE_INFINITY;
          this.poll();
        });
        return;
      case 'claim':
        this.#takeClaim(effect.epoch);
        return;
      case 'send': {
        const { txn, attempt } = effect;
        this.#world.checkSend(this, txn);
        this.#worker.send(effect, (answer) => this.#answered(txn, attempt, answer));
        return;
      }
      case 'withdraw':
        this.#worker.withdraw(effect.lane, effect.attempt);
        return;
      case 'committed':
        this.disk.append({ kind: 'committed', effect });
        for (const seq of effect.seqs) if (!Number.isNaN(seq)) this.#world.acknowledged.add(seq);
        return;
      case 'fenced':
        this.fencedBy = effect.by;
        this.alive = false;
        return;
      case 'resync':
        clock.after(1, () => this.alive && this.resync());
        return;
      case 'deadLetter': {
        if (!this.#world.etcd.poisoned.has(effect.endpoint))
          throw new Error('set aside what etcd would have taken');
        const accepted = this.#accepted.get(effect.seq) ?? this.#world.fromDisk(this.disk, effect.seq);
        if (accepted !== undefined) accepted.expected = 'never';
        return;
      }
      case 'retry':
        return;
    }
  }

  /** That of its claim, whatever became of that meanwhile. */
  #epochOf({ claim }: Txn): number {
    return parseClaim(claim)!.epoch;
  }

  #answered(txn: Txn, attempt: number, answer: TxnAnswer): void {
    if (!this.alive) return;
    this.reporter.answered(txn.lane, attempt, answer, this.#world.clock.nowMs);
    this.poll();
  }

  #takeClaim(ownEpoch: number): void {
    const { clock, etcd, faults, plan } = this.#world;
    const asRead = etcd.claimModRevision;
    faults.claim(
      () => {
        const claimed = etcd.claim(`life-${this.life}`, plan.reporter.lanes, ownEpoch, asRead);
        if (claimed === 'refused' || claimed === 'changed') return claimed;
        this.#world.claimed(this, claimed.epoch);
        return claimed;
      },
      (claimed) => {
        if (!this.alive) return;
        if (claimed === null || claimed === 'changed') {
          this.reporter.claimAnswered(
            { kind: 'unclear', reason: 'unavailable', message: 'lost' },
            clock.nowMs,
          );
          if (!this.#observing && this.#world.random.chance(0.3)) this.startObserving();
          this.poll();
          return;
        }
        if (claimed === 'refused') {
          this.reporter.claimAnswered(
            { kind: 'refused', holder: 'other', message: 'taken over' },
            clock.nowMs,
          );
          this.poll();
          return;
        }
        this.epoch = claimed.epoch;
        const { lastSeq } = this.reporter.queues;
        this.reporter.claimAnswered({ kind: 'claimed', ...claimed }, clock.nowMs);
        if (this.reporter.queues.lastSeq > lastSeq) this.#renumbered(lastSeq);
        if (this.reporter.state !== 'seeding') {
          this.poll();
          return;
        }
        const listed = [...etcd.values];
        for (const [endpoint, left] of this.#left) {
          const cursor = claimed.cursors[endpoint % plan.reporter.lanes] ?? null;
          const covered =
            cursor === null
              ? () => false
              : ({ seq }: Accepted) => covers(decodeCursor(cursor), endpoint, seq);
          const head = left.find((accepted) => !covered(accepted));
          if (head?.initial) this.#initial.set(endpoint, head);
        }
        clock.after(this.#world.random.below(30), () => this.#seed(listed));
      },
    );
  }

  #seed(listed: [EndpointIndex, Status][]): void {
    if (!this.alive || this.#seeded) return;
    const inEtcd = new Map(listed);
    for (const [endpoint, accepted] of this.#initial) {
      if (accepted.status !== (inEtcd.get(endpoint) ?? Status.removed)) continue;
      // Set back, etcd may lack it again at the next start.
      accepted.expected = this.#world.plan.setBacks > 0 ? 'may' : 'never';
    }
    this.#seeded = true;
    this.reporter.seed(listed, this.#world.clock.nowMs);
    this.poll();
    this.startObserving();
    // A key of an endpoint that is neither known nor there is stale: the resync takes it away.
    this.resync();
  }

  /** The cursors were ahead of the journal: what this life had accepted has new numbers. */
  #renumbered(before: number): void {
    const again = this.#world.oracle.accepted.filter(
      (entry) => entry.life === this.life && entry.seq > before,
    );
    for (const [seq, accepted] of this.#accepted) {
      if (seq > before) continue;
      accepted.expected = 'never';
      if (this.#initial.get(accepted.endpoint) !== accepted) continue;
      const renumbered = again.find((entry) => entry.endpoint === accepted.endpoint);
      if (renumbered !== undefined) this.#initial.set(accepted.endpoint, renumbered);
    }
  }
}
