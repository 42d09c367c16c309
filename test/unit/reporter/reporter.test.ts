import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Source, Status } from '../../../src/endpoints/status.js';
import type { TxnAnswer } from '../../../src/reporter/answers.js';
import { encodeClaim } from '../../../src/reporter/claim.js';
import { decodeCursor } from '../../../src/reporter/cursor.js';
import type { Effect, Txn } from '../../../src/reporter/effects.js';
import { Reporter, type ReporterOptions } from '../../../src/reporter/reporter.js';

const { up, down, removed } = Status;
const e = (n: number): EndpointIndex => n as EndpointIndex;
const claim = (epoch: number, instance = 'me'): Uint8Array =>
  encodeClaim({ epoch, instance, machine: 'm', lanes: 1, startedAt: 't' });

/** A reporter with one lane and a journal that is always durable, and what it wants. */
class Driven {
  readonly reporter: Reporter;
  effects: Effect[] = [];
  nowMs = 0;

  constructor(options: Partial<ReporterOptions> = {}) {
    this.reporter = new Reporter({
      lanes: 1,
      sackMax: 1024,
      txn: { maxOps: 128, bytesMax: 1 << 20, watchBytesMax: 0 },
      limits: { txnsPerSecond: 0, burst: 1 },
      schedule: {
        endpointDelayMs: 0,
        endpointCatchUpMs: 10_000,
        confirm: false,
        confirmAfterMs: 2000,
        confirmAfterOutageMs: 15_000,
      },
      pendingMax: 1000,
      startJitterMs: 0,
      random: () => 0.5,
      append: (seq) => this.reporter.durable(seq, this.nowMs),
      ...options,
    });
    for (let i = 0; i < 20; i++)
      this.reporter.queues.addEndpoint(e(i), i >= 10 ? 'host' : 'workload', 0, 100);
  }

  claimed(epoch = 1, cursors: (Uint8Array | null)[] = [null]): this {
    this.poll();
    this.reporter.claimAnswered(
      { kind: 'claimed', claim: claim(epoch), epoch, revision: 1, cursors },
      this.nowMs,
    );
    this.reporter.seed([], this.nowMs);
    return this;
  }

  observe(endpoint: number, ...statuses: Status[]): this {
    for (const status of statuses) this.reporter.observe(e(endpoint), status, Source.netlink, this.nowMs);
    return this;
  }

  poll(): Effect[] {
    this.effects = this.reporter.poll(this.nowMs);
    return this.effects;
  }

  /** The transaction that it sends now; fails where it sends none. */
  sends(): { txn: Txn; attempt: number } {
    const sent = this.poll().find((effect) => effect.kind === 'send' && effect.after === null);
    assert.ok(sent?.kind === 'send', `no transaction: ${JSON.stringify(this.effects)}`);
    return sent;
  }

  /** Sends one transaction, which nothing follows. */
  sendsAlone(): void {
    this.sends();
    assert.equal(this.effects.filter(({ kind }) => kind === 'send').length, 1);
  }

  /** What is to follow, of the effects at hand. */
  get follows(): { txn: Txn; attempt: number } {
    const sent = this.effects.find((effect) => effect.kind === 'send' && effect.after !== null);
    assert.ok(sent?.kind === 'send', `nothing follows: ${JSON.stringify(this.effects)}`);
    return sent;
  }

  silent(): void {
    assert.deepEqual(
      this.poll().filter(({ kind }) => kind === 'send'),
      [],
    );
  }

  answer(attempt: number, answer: TxnAnswer): this {
    this.reporter.answered(0, attempt, answer, this.nowMs);
    return this;
  }

  after(ms: number): this {
    this.nowMs += ms;
    return this;
  }
}

const committed: TxnAnswer = { kind: 'committed', revision: 7 };

describe("the core, and etcd's answers", () => {
  let driven: Driven;
  beforeEach(() => {
    driven = new Driven().claimed();
  });

  it('committed: the next one of each endpoint goes, and the cursor moves', () => {
    const first = driven.observe(1, up, down).observe(2, up).sends();
    assert.deepEqual(
      [first.txn.endpoints, first.txn.statuses],
      [
        [1, 2],
        [up, up],
      ],
    );
    const second = driven.answer(first.attempt, committed).sends();
    assert.deepEqual([second.txn.endpoints, second.txn.statuses], [[1], [down]]);
    assert.deepEqual(second.txn.cursorBefore, first.txn.cursorAfter);
    driven.answer(second.attempt, committed).silent();
    assert.equal(driven.reporter.queues.pending, 0);
  });

  it('unclear: the very same transaction once more, after a while', () => {
    const first = driven.observe(1, up).sends();
    driven.answer(first.attempt, { kind: 'unclear', reason: 'timeout', message: '' }).silent();
    assert.equal(driven.reporter.etcdUp, false);
    driven.observe(2, up).after(50).silent();
    assert.equal(driven.after(60).sends().txn, first.txn);
  });

  it('a conflict that shows our own cursor: it had been committed', () => {
    const first = driven.observe(1, up).sends();
    driven.answer(first.attempt, { kind: 'unclear', reason: 'unavailable', message: '' });
    const again = driven.after(1000).sends();
    driven.answer(again.attempt, {
      kind: 'conflict',
      revision: 9,
      claim: claim(1),
      cursor: { value: first.txn.cursorAfter, modRevision: 5 },
    });
    const effect = driven.poll().find(({ kind }) => kind === 'committed');
    assert.deepEqual(effect?.kind === 'committed' && [effect.recovered, effect.revision], [true, 5]);
    assert.equal(driven.reporter.queues.pending, 0);
  });

  it('a conflict that shows another claim of a higher epoch: fenced, for good', () => {
    const { attempt } = driven.observe(1, up).sends();
    driven.answer(attempt, { kind: 'conflict', revision: 9, claim: claim(2, 'other'), cursor: null });
    assert.match(JSON.stringify(driven.poll()), /fenced.*other/);
    driven.observe(2, up).after(100_000).silent();
  });

  it('a conflict that shows no claim: etcd was set back, claim again above the last epoch', () => {
    const { attempt } = driven.observe(1, up).sends();
    driven.answer(attempt, { kind: 'conflict', revision: 2, claim: null, cursor: null });
    assert.deepEqual(
      driven.poll().find(({ kind }) => kind === 'claim'),
      { kind: 'claim', epoch: 1 },
    );
    driven.reporter.claimAnswered(
      { kind: 'claimed', claim: claim(2), epoch: 2, revision: 3, cursors: [null] },
      driven.nowMs,
    );
    const again = driven.sends();
    assert.deepEqual([again.txn.endpoints, again.txn.cursorBefore], [[1], null]);
    assert.ok(driven.effects.some((effect) => effect.kind === 'resync' && effect.reason === 'restored'));
  });

  it('too many operations: half as many, from now on', () => {
    for (let i = 0; i < 8; i++) driven.observe(i, up);
    const first = driven.sends();
    assert.equal(first.txn.endpoints.length, 8);
    const second = driven.answer(first.attempt, { kind: 'tooLarge', limit: 'ops', message: '' }).sends();
    assert.deepEqual(second.txn.endpoints, [0, 1, 2, 3]);
    assert.deepEqual(driven.follows.txn.endpoints, [4, 5, 6, 7]);
  });

  it('too many operations after an unclear try: the try may have been applied all the same', () => {
    for (let i = 0; i < 4; i++) driven.observe(i, up);
    const first = driven.sends();
    driven.answer(first.attempt, { kind: 'unclear', reason: 'timeout', message: '' }).after(10_000);
    const again = driven.sends();
    driven.answer(again.attempt, { kind: 'tooLarge', limit: 'ops', message: '' });
    const half = driven.sends();
    assert.equal(half.txn.endpoints.length, 2);
    driven.answer(half.attempt, {
      kind: 'conflict',
      revision: 9,
      claim: claim(1),
      cursor: { value: first.txn.cursorAfter, modRevision: 5 },
    });
    driven.silent();
    assert.equal(driven.reporter.queues.pending, 0);
  });

  it('an operation that etcd will never take: isolated, set aside, and passed over by the cursor', () => {
    for (let i = 0; i < 4; i++) driven.observe(i, up);
    const invalid: TxnAnswer = { kind: 'invalid', message: 'bad' };
    const aside: number[] = [];
    let cursor: Uint8Array | null = null;
    let sent = driven.poll().filter((effect) => effect.kind === 'send');
    for (let next = sent.shift(); next !== undefined; next = sent.shift()) {
      const refused = next.txn.endpoints.includes(e(2));
      driven.answer(next.attempt, refused ? invalid : committed);
      if (!refused) cursor = next.txn.cursorAfter;
      // Nothing follows what is not committed.
      if (refused) for (const { attempt } of sent.splice(0)) driven.answer(attempt, { kind: 'notSent' });
      const effects = driven.poll();
      for (const effect of effects) if (effect.kind === 'deadLetter') aside.push(effect.endpoint);
      sent = [...sent, ...effects.filter((effect) => effect.kind === 'send')];
    }
    assert.deepEqual(aside, [2]);
    assert.equal(driven.reporter.queues.pending, 0);
    assert.equal(decodeCursor(cursor!).ack, driven.reporter.queues.lastSeq);
  });

  it('permission denied for one kind of endpoint: that kind waits 30 s, the other goes on', () => {
    driven.observe(1, up).observe(11, up);
    const first = driven.sends();
    driven.answer(first.attempt, { kind: 'denied', message: 'etcdserver: permission denied' });
    const second = driven.sends();
    assert.notEqual(first.txn.endpoints[0], second.txn.endpoints[0]);
    driven.answer(second.attempt, committed).silent();
    assert.notEqual(driven.reporter.denied, null);
    const again = driven.after(30_000).sends();
    assert.deepEqual(again.txn.endpoints, first.txn.endpoints);
    driven.answer(again.attempt, committed).poll();
    assert.equal(driven.reporter.denied, null);
  });

  it('an answer to a transaction that is settled already changes nothing', () => {
    const { attempt } = driven.observe(1, up, down).sends();
    driven.answer(attempt, committed);
    driven.sends();
    driven.answer(attempt, { kind: 'invalid', message: '' }).silent();
    assert.equal(driven.reporter.queues.pending, 1);
  });
});

describe('the core, and the transaction that follows the one in flight', () => {
  let driven: Driven;
  beforeEach(() => {
    driven = new Driven().claimed();
  });
  const endpointsOf = ({ txn }: { txn: Txn }): readonly number[] => txn.endpoints;
  const withdrawn = (): number[] =>
    driven.effects.flatMap((effect) => (effect.kind === 'withdraw' ? [effect.attempt] : []));

  it('is built where one more comes in any case, on the cursor of the one before', () => {
    const first = driven.observe(1, up, down, up).sends();
    const second = driven.follows;
    assert.deepEqual([endpointsOf(second), second.txn.statuses], [[1], [down]]);
    assert.deepEqual(second.txn.cursorBefore, first.txn.cursorAfter);
    assert.equal(decodeCursor(second.txn.cursorAfter).ack, driven.reporter.queues.lastSeq - 1);
    driven.answer(first.attempt, committed).silent(); // it has gone by itself
    driven.answer(second.attempt, committed);
    const third = driven.sends();
    assert.deepEqual([endpointsOf(third), third.txn.statuses], [[1], [up]]);
  });

  it('is not built where whoever comes meanwhile can still go along', () => {
    driven.observe(1, up).observe(2, up, down).sendsAlone();
    driven.observe(3, up).silent();
  });

  it('is not built where the rate is limited, nor where an endpoint is spaced', () => {
    const limited = new Driven({ limits: { txnsPerSecond: 10, burst: 10 } }).claimed();
    limited.observe(1, up, down, up).sendsAlone();
    limited.silent();
    const spaced = new Driven({
      schedule: {
        endpointDelayMs: 1000,
        endpointCatchUpMs: 10_000,
        confirm: false,
        confirmAfterMs: 2000,
        confirmAfterOutageMs: 15_000,
      },
    }).claimed();
    spaced.observe(1, up, down, up).sendsAlone();
    spaced.silent();
  });

  it('takes those who wait first, and only then those who are in the one before', () => {
    const small = new Driven({ txn: { maxOps: 4, bytesMax: 1 << 20, watchBytesMax: 0 } }).claimed();
    for (let i = 0; i < 4; i++) small.observe(i, up, down, up);
    assert.deepEqual(endpointsOf(small.sends()), [0, 1, 2]);
    assert.deepEqual(endpointsOf(small.follows), [3, 0, 1]);
  });

  it('is withdrawn for one who comes later, and built again with that one in it', () => {
    driven.observe(1, up, down, up).sends();
    const second = driven.follows;
    driven.observe(2, up).poll();
    assert.deepEqual(withdrawn(), [second.attempt]);
    driven.poll();
    assert.deepEqual(withdrawn(), []); // once is enough
    driven.answer(second.attempt, { kind: 'notSent' }).poll();
    assert.deepEqual(endpointsOf(driven.follows), [2, 1]);
  });

  it('stays where it is full of those who waited', () => {
    const small = new Driven({ txn: { maxOps: 3, bytesMax: 1 << 20, watchBytesMax: 0 } }).claimed();
    for (let i = 0; i < 4; i++) small.observe(i, up);
    small.sends();
    small.observe(5, up).poll();
    assert.ok(!small.effects.some(({ kind }) => kind === 'withdraw'));
  });

  it('comes back unsent where the one before fails, and its transitions go with the next', () => {
    const first = driven.observe(1, up, down, up).sends();
    const second = driven.follows;
    driven.answer(first.attempt, { kind: 'unclear', reason: 'timeout', message: '' });
    driven.answer(second.attempt, { kind: 'notSent' }).silent();
    const again = driven.after(1000).sends();
    assert.equal(again.txn, first.txn);
    const next = driven.answer(again.attempt, committed).sends();
    assert.deepEqual([endpointsOf(next), next.txn.statuses], [[1], [down]]);
  });

  it('that came back unasked has no other in its place', () => {
    driven.observe(1, up, down, up).sends();
    driven.answer(driven.follows.attempt, { kind: 'notSent' }).silent();
  });

  it('may have been applied where the worker died: both are known to be then', () => {
    const first = driven.observe(1, up, down, up).sends();
    const second = driven.follows;
    for (const { attempt } of [first, second])
      driven.answer(attempt, { kind: 'unclear', reason: 'worker', message: '' });
    const again = driven.after(1000).sends();
    assert.equal(again.txn, first.txn);
    driven.answer(again.attempt, {
      kind: 'conflict',
      revision: 9,
      claim: claim(1),
      cursor: { value: second.txn.cursorAfter, modRevision: 8 },
    });
    const third = driven.sends();
    assert.deepEqual([endpointsOf(third), third.txn.statuses], [[1], [up]]);
    assert.deepEqual(third.txn.cursorBefore, second.txn.cursorAfter);
    assert.equal(driven.effects.filter(({ kind }) => kind === 'committed').length, 2);
  });

  it('may still be applied where the worker died, after the one before was given up and found committed', () => {
    for (let i = 0; i < 4; i++) driven.observe(i, up, down, up);
    const first = driven.sends();
    const second = driven.follows;
    for (const { attempt } of [first, second])
      driven.answer(attempt, { kind: 'unclear', reason: 'worker', message: '' });
    const again = driven.after(1000).sends();
    driven.answer(again.attempt, { kind: 'tooLarge', limit: 'ops', message: '' });
    const conflict = (cursor: Uint8Array): TxnAnswer => ({
      kind: 'conflict',
      revision: 9,
      claim: claim(1),
      cursor: { value: cursor, modRevision: 8 },
    });
    driven.answer(driven.sends().attempt, conflict(first.txn.cursorAfter));
    driven.answer(driven.sends().attempt, conflict(second.txn.cursorAfter));
    assert.equal(driven.reporter.queues.pending, 4);
    assert.deepEqual(endpointsOf(driven.sends()), [0, 1]);
    assert.equal(driven.effects.filter(({ kind }) => kind === 'claim').length, 0);
  });
});

describe('the core, and what it is told', () => {
  it('begins with down what comes back after a removal', () => {
    const driven = new Driven().claimed().observe(1, up, removed, up);
    assert.equal(driven.reporter.queues.pending, 4);
  });

  it('passes over what etcd has already, of what it saw before it could ask', () => {
    const driven = new Driven();
    driven.observe(1, up).observe(2, up, down).observe(3, removed).poll();
    driven.reporter.claimAnswered(
      { kind: 'claimed', claim: claim(1), epoch: 1, revision: 1, cursors: [null] },
      0,
    );
    driven.silent();
    driven.reporter.seed(
      [
        [e(1), up],
        [e(2), down],
      ],
      0,
    );
    // The second one had gone up and down meanwhile: that is news.
    const { txn } = driven.sends();
    assert.deepEqual([txn.endpoints, txn.statuses], [[2], [up]]);
  });

  it('says when it is full, and knows the final state at the next resync', () => {
    const driven = new Driven({ pendingMax: 2 }).claimed();
    assert.equal(driven.reporter.observe(e(1), up, Source.felix, 0), 'accepted');
    assert.equal(driven.reporter.observe(e(1), down, Source.felix, 0), 'accepted');
    assert.equal(driven.reporter.observe(e(1), up, Source.felix, 0), 'full');
    for (let i = 0; i < 2; i++) driven.answer(driven.sends().attempt, committed);
    driven.poll();
    driven.reporter.beginResync();
    assert.deepEqual(driven.reporter.resync(new Map([[e(1), down]]), 99, true, 0), {
      put: 1,
      repaired: 0,
      deleted: 0,
    });
  });

  it('puts right what a resync finds, only once the sources are in sync where it is about removing', () => {
    const driven = new Driven().claimed().observe(1, up).observe(2, up).observe(3, up);
    driven.answer(driven.sends().attempt, committed).poll();
    const listed = new Map<EndpointIndex, Status | null>([
      [e(1), down],
      [e(2), null],
      [e(4), up],
    ]);
    driven.reporter.beginResync();
    assert.deepEqual(driven.reporter.resync(listed, 99, false, 0), { put: 1, repaired: 2, deleted: 0 });
    driven.answer(driven.sends().attempt, committed).poll();
    driven.reporter.beginResync();
    const right = new Map<EndpointIndex, Status | null>([
      [e(1), up],
      [e(2), up],
      [e(3), up],
      [e(4), up],
    ]);
    assert.deepEqual(driven.reporter.resync(right, 99, true, 0), { put: 0, repaired: 0, deleted: 1 });
  });

  it('judges nothing by a list that is older than its own commits, nor an endpoint that was busy meanwhile', () => {
    const driven = new Driven().claimed().observe(1, up);
    driven.answer(driven.sends().attempt, { kind: 'committed', revision: 50 }).poll();
    driven.reporter.beginResync();
    assert.equal(driven.reporter.resync(new Map(), 49, true, 0), null);
    driven.reporter.beginResync();
    driven.observe(1, down);
    driven.answer(driven.sends().attempt, { kind: 'committed', revision: 60 }).poll();
    assert.deepEqual(driven.reporter.resync(new Map([[e(1), up]]), 55, true, 0), {
      put: 0,
      repaired: 0,
      deleted: 0,
    });
  });

  it('can forget an endpoint an hour after its removal is committed, not before', () => {
    const driven = new Driven().claimed().observe(1, up, removed);
    for (let i = 0; i < 2; i++) driven.answer(driven.sends().attempt, committed);
    driven.poll();
    assert.equal(driven.reporter.queues.forgettable(e(1), driven.nowMs), false);
    driven.after(3_600_001);
    assert.equal(driven.reporter.queues.forgettable(e(1), driven.nowMs), true);
    driven.observe(1, up);
    assert.equal(driven.reporter.queues.forgettable(e(1), driven.nowMs), false);
  });
});
