import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { Etcd3 } from 'etcd3';
import {
  type ClaimOutcome,
  type ClaimRequest,
  changeLanes,
  takeClaim,
  watchClaim,
} from '../../../src/etcd/claim.js';
import { openEtcd } from '../../../src/etcd/client.js';
import { TxnTransport } from '../../../src/etcd/transport.js';
import { type Claim, parseClaim } from '../../../src/reporter/claim.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { type FaultyProxy, startProxy } from '../../support/proxy.js';
import { until } from '../../support/waiting.js';
import { bytes, keys, read, request, summary, versions } from './fixture.js';

function asking(parts: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    claimKey: keys.claimKey,
    cursorKey: keys.cursorKey,
    instance: 'i1',
    machine: 'm1',
    lanes: 2,
    startedAt: '2026-01-01T00:00:00Z',
    epoch: 0,
    take: false,
    ...parts,
  };
}

function claimed(outcome: ClaimOutcome): Extract<ClaimOutcome, { kind: 'claimed' }> {
  assert.ok(outcome.kind === 'claimed', JSON.stringify(outcome));
  return outcome;
}

for (const version of versions) {
  describe(`a host's claim in etcd ${version}`, () => {
    let etcd: Etcd;
    let proxy: FaultyProxy;
    let client: Etcd3;

    before(async () => {
      etcd = await startEtcd({ version });
      proxy = await startProxy(etcd.endpoint);
    });
    after(async () => {
      await proxy.close();
      await etcd.close();
    });
    beforeEach(() => {
      etcd.ctl('del', '--prefix', '/calico/');
      client = openEtcd({ endpoints: [proxy.endpoint], deadlineMs: 1000 });
    });
    afterEach(() => client.close());

    const inEtcd = () => read(etcd, keys.claimKey);

    it('is taken where there is none, and its bytes are those in etcd', async () => {
      const { claim, epoch, lanes, cursors, revision } = claimed(await takeClaim(client, asking()));
      assert.equal(
        Buffer.from(claim).toString(),
        '{"epoch":1,"instance":"i1","machine":"m1","lanes":2,"startedAt":"2026-01-01T00:00:00Z"}',
      );
      assert.deepEqual({ epoch, lanes, cursors }, { epoch: 1, lanes: 2, cursors: [null, null] });
      assert.deepEqual(inEtcd(), { value: Buffer.from(claim).toString(), version: 1, modRevision: revision });
    });

    it('is taken over by a restart on the same machine, with the cursors as they are', async () => {
      await takeClaim(client, asking());
      etcd.ctl('put', keys.cursorKey(1), 'cursor of lane 1');
      const { epoch, cursors } = claimed(await takeClaim(client, asking({ instance: 'i2' })));
      assert.equal(epoch, 2);
      assert.equal(cursors[0], null);
      assert.equal(Buffer.from(cursors[1]!).toString(), 'cursor of lane 1');
    });

    it('voids what the one before still has on its way', async () => {
      const first = claimed(await takeClaim(client, asking()));
      const transport = new TxnTransport({ endpoints: [etcd.endpoint] });
      const claim = Buffer.from(first.claim).toString();
      assert.equal(summary(await transport.txn(request(null, 'a', { claim }))), 'committed');
      const second = claimed(await takeClaim(client, asking({ instance: 'i2' })));
      const late = await transport.txn(request('a', 'b', { claim }));
      assert.ok(late.kind === 'conflict', late.kind);
      assert.deepEqual(late.claim, new Uint8Array(second.claim));
      assert.equal(read(etcd, keys.cursorKey(0))!.value, 'a');
      transport.close();
    });

    it('goes to one at a time where many take it together, each with an epoch of its own', async () => {
      const clients = Array.from({ length: 8 }, () => openEtcd({ endpoints: [etcd.endpoint] }));
      const outcomes = await Promise.all(
        clients.map((each, i) => takeClaim(each, asking({ instance: `racer${i}` }))),
      );
      for (const each of clients) each.close();
      const won = outcomes.filter((outcome) => outcome.kind === 'claimed');
      const lost = outcomes.filter((outcome) => outcome.kind !== 'claimed');
      assert.deepEqual(
        won.map(({ epoch }) => epoch).sort(),
        Array.from(won, (_, i) => i + 1),
      );
      for (const outcome of lost) assert.equal(outcome.kind, 'unclear');
      const holder = won.find(({ epoch }) => epoch === won.length)!;
      assert.equal(inEtcd()!.value, Buffer.from(holder.claim).toString());
      // Only the last one's transactions pass.
      const transport = new TxnTransport({ endpoints: [etcd.endpoint] });
      for (const outcome of won) {
        const claim = Buffer.from(outcome.claim).toString();
        const expected = outcome === holder ? 'committed' : 'conflict';
        assert.equal(
          summary(await transport.txn(request(null, 'a', { claim, lane: outcome.epoch }))),
          expected,
        );
      }
      transport.close();
    });

    it('is refused to another machine, which is told the way out, and given to it where it insists', async () => {
      await takeClaim(client, asking());
      const before = inEtcd();
      const other = asking({ instance: 'i2', machine: 'm2' });
      const refused = await takeClaim(client, other);
      assert.ok(refused.kind === 'refused', refused.kind);
      assert.equal(refused.holder, 'm1');
      assert.match(refused.message, /m1.*m2.*flapd claim --take/);
      assert.deepEqual(inEtcd(), before);
      assert.equal(claimed(await takeClaim(client, { ...other, take: true })).epoch, 2);
    });

    it('is refused to an instance that was itself taken over', async () => {
      const mine = claimed(await takeClaim(client, asking()));
      await takeClaim(client, asking({ instance: 'i2' }));
      const again = await takeClaim(client, asking({ epoch: mine.epoch }));
      assert.equal(again.kind, 'refused');
    });

    it('is taken again with a higher epoch where etcd was emptied', async () => {
      const again = claimed(await takeClaim(client, asking({ epoch: 7 })));
      assert.equal(again.epoch, 8);
    });

    it('is not overwritten where it holds something unreadable', async () => {
      etcd.ctl('put', keys.claimKey, 'not a claim');
      const refused = await takeClaim(client, asking());
      assert.equal(refused.kind, 'refused');
      assert.equal(inEtcd()!.value, 'not a claim');
    });

    it('whose answer is lost is unclear, and taken at the next try', async () => {
      await takeClaim(client, asking());
      proxy.cutReplies(1);
      const first = await takeClaim(client, asking({ instance: 'i2' }));
      assert.equal(first.kind, 'unclear');
      const second = await until('the claim', async () => {
        const outcome = await takeClaim(client, asking({ instance: 'i2' }));
        return outcome.kind === 'claimed' ? outcome : null;
      });
      assert.equal(inEtcd()!.value, Buffer.from(second.claim).toString());
    });

    it('keeps the number of lanes of the one before, with all their cursors, until it is changed', async () => {
      await takeClaim(client, asking({ lanes: 4 }));
      etcd.ctl('put', keys.cursorKey(3), 'lane 3');
      const next = asking({ instance: 'i2', lanes: 2 });
      const held = claimed(await takeClaim(client, next));
      assert.equal(held.lanes, 4);
      assert.equal(held.cursors.length, 4);
      assert.equal(parseClaim(held.claim)!.lanes, 4);

      const changed = claimed(await changeLanes(client, next, held, [bytes('new 0'), bytes('new 1')]));
      assert.deepEqual({ lanes: changed.lanes, epoch: changed.epoch }, { lanes: 2, epoch: 3 });
      assert.equal(inEtcd()!.value, Buffer.from(changed.claim).toString());
      assert.equal(read(etcd, keys.cursorKey(1))!.value, 'new 1');
      assert.equal(read(etcd, keys.cursorKey(3)), null);

      const late = await changeLanes(client, next, held, [bytes('late')]);
      assert.equal(late.kind, 'unclear');
      assert.equal(read(etcd, keys.cursorKey(0))!.value, 'new 0');
    });

    it('of a frozen etcd is unclear by the deadline', async () => {
      etcd.kill('SIGSTOP');
      try {
        const outcome = await takeClaim(client, asking());
        assert.ok(outcome.kind === 'unclear', outcome.kind);
        assert.equal(outcome.reason, 'timeout');
      } finally {
        etcd.kill('SIGCONT');
      }
    });

    it('is watched, so that a take-over is noticed with nothing to write, also after a lost connection', async () => {
      const mine = claimed(await takeClaim(client, asking()));
      const seen: (Claim | null)[] = [];
      const stop = new AbortController();
      const watching = watchClaim({ endpoints: [proxy.endpoint] }, keys.claimKey, {
        fromRevision: mine.revision + 1,
        onChange: (claim) => seen.push(claim),
        signal: stop.signal,
      });
      const other = openEtcd({ endpoints: [etcd.endpoint] });
      await takeClaim(other, asking({ instance: 'i2' }));
      await until('the take-over', () => seen.at(-1)?.instance === 'i2');
      proxy.cut();
      await takeClaim(other, asking({ instance: 'i3' }));
      await until('the next take-over', () => seen.at(-1)?.instance === 'i3');
      etcd.ctl('del', keys.claimKey);
      await until('the deletion', () => seen.at(-1) === null);
      assert.equal(seen.length, 3);
      other.close();
      stop.abort();
      await watching;
    });
  });
}
