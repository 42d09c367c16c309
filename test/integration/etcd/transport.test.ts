import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Status } from '../../../src/endpoints/status.js';
import { TxnTransport } from '../../../src/etcd/transport.js';
import { bytesField } from '../../../src/wire/protobuf.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { type FaultyProxy, startProxy } from '../../support/proxy.js';
import { bytes, keys, putClaim, read, request, settle, summary, versions } from './fixture.js';

const statusKey0 = keys.statusKeyOf(0 as never);

for (const version of versions) {
  describe(`transactions to a real etcd ${version}`, () => {
    let etcd: Etcd;
    let proxy: FaultyProxy;
    let transport: TxnTransport;

    before(async () => {
      etcd = await startEtcd({ version, args: ['--max-txn-ops=16', '--max-request-bytes=65536'] });
      proxy = await startProxy(etcd.endpoint);
      transport = new TxnTransport({ endpoints: [proxy.endpoint], deadlineMs: 500 });
      putClaim(etcd);
    });
    after(async () => {
      transport.close();
      await proxy.close();
      await etcd.close();
    });

    it('are committed: the first one, the next one, and a removal', async () => {
      const first = await transport.txn(request(null, 'a1'));
      assert.deepEqual(first, { kind: 'committed', revision: read(etcd, statusKey0)!.modRevision });
      assert.equal(read(etcd, statusKey0)!.value, '{"status":"up"}');
      assert.equal(read(etcd, keys.cursorKey(0))!.value, 'a1');

      assert.equal((await transport.txn(request('a1', 'a2', { status: Status.down }))).kind, 'committed');
      assert.equal(read(etcd, statusKey0)!.value, '{"status":"down"}');

      assert.equal((await transport.txn(request('a2', 'a3', { status: Status.removed }))).kind, 'committed');
      assert.equal(read(etcd, statusKey0), null);
    });

    it('do nothing where the cursor is not what was expected, and say what it is', async () => {
      await transport.txn(request(null, 'b1', { lane: 1 }));
      const { modRevision } = read(etcd, keys.cursorKey(1))!;
      for (const wrong of [request('b0', 'b2', { lane: 1 }), request(null, 'b2', { lane: 1 })]) {
        const answer = await transport.txn(wrong);
        assert.ok(answer.kind === 'conflict', answer.kind);
        assert.deepEqual(answer.claim, bytes('claim'));
        assert.deepEqual(answer.cursor, { value: bytes('b1'), modRevision });
      }
      assert.equal(read(etcd, keys.cursorKey(1))!.version, 1);
    });

    it('of an older claim fail, and say whose it is now', async () => {
      const lane = 2;
      await transport.txn(request(null, 'c1', { lane }));
      const puts = read(etcd, statusKey0)!.version;
      putClaim(etcd, 'a newer claim');
      const answer = await transport.txn(request('c1', 'c2', { lane }));
      putClaim(etcd);
      assert.ok(answer.kind === 'conflict', answer.kind);
      assert.deepEqual(answer.claim, bytes('a newer claim'));
      assert.equal(read(etcd, keys.cursorKey(lane))!.value, 'c1');
      assert.equal(read(etcd, statusKey0)!.version, puts);
    });

    it('say null for a claim and a cursor that are gone', async () => {
      etcd.ctl('del', keys.claimKey);
      const answer = await transport.txn(request('x', 'y', { lane: 7 }));
      putClaim(etcd);
      assert.ok(answer.kind === 'conflict', answer.kind);
      assert.equal(answer.claim, null);
      assert.equal(answer.cursor, null);
    });

    it('whose answer is lost are unclear, and the same again shows that they were committed once', async () => {
      const lane = 3;
      await transport.txn(request(null, 'd1', { lane }));
      const puts = read(etcd, statusKey0)!.version;
      const sent = request('d1', 'd2', { lane });
      proxy.cutReplies(1);
      assert.equal(summary(await transport.txn(sent)), 'unclear unavailable');

      const again = await settle(transport, sent);
      assert.ok(again.kind === 'conflict', again.kind);
      const cursor = read(etcd, keys.cursorKey(lane))!;
      assert.deepEqual(again.cursor, { value: bytes('d2'), modRevision: cursor.modRevision });
      assert.equal(cursor.version, 2);
      assert.equal(read(etcd, statusKey0)!.version, puts + 1);
    });

    it('with too many operations are told from those with too many bytes', async () => {
      const many = await transport.txn(request(null, 'e1', { lane: 4, endpoints: 16 }));
      assert.equal(summary(many), 'tooLarge ops');
      const long = await transport.txn(request(null, 'e'.repeat(100_000), { lane: 4 }));
      assert.equal(summary(long), 'tooLarge bytes');
      // Beyond gRPC's own limit, which is etcd's and 512 KiB.
      const huge = await transport.txn(request(null, 'e'.repeat(1_000_000), { lane: 4 }));
      assert.equal(summary(huge), 'tooLarge bytes');
      assert.equal(read(etcd, keys.cursorKey(4)), null);
    });

    it('with a key twice are invalid', async () => {
      const put = bytesField(2, bytesField(2, bytesField(1, '/twice'), bytesField(2, 'x')));
      assert.equal(summary(await transport.txn(Buffer.concat([put, put]))), 'invalid');
    });

    it('to a frozen etcd are unclear by their deadline, and settled once it goes on', async () => {
      const lane = 5;
      await transport.txn(request(null, 'f1', { lane }));
      const puts = read(etcd, statusKey0)!.version;
      const sent = request('f1', 'f2', { lane });
      etcd.kill('SIGSTOP');
      try {
        assert.equal(summary(await transport.txn(sent)), 'unclear timeout');
      } finally {
        etcd.kill('SIGCONT');
      }
      await settle(transport, sent);
      assert.equal(read(etcd, keys.cursorKey(lane))!.value, 'f2');
      assert.equal(read(etcd, statusKey0)!.version, puts + 1);
    });

    it('through a network that swallows everything are unclear, and settled once it is back', async () => {
      const lane = 6;
      const sent = request(null, 'g1', { lane });
      proxy.blackhole(true);
      try {
        // So many that the connection itself is given up.
        for (let i = 0; i < 4; i++) assert.equal(summary(await transport.txn(sent)), 'unclear timeout');
      } finally {
        proxy.blackhole(false);
      }
      await settle(transport, sent);
      assert.equal(read(etcd, keys.cursorKey(lane))!.version, 1);
    });

    it('to a killed etcd are unclear, and settled soon after it is back', async () => {
      const lane = 8;
      const direct = new TxnTransport({ endpoints: [etcd.endpoint], deadlineMs: 500 });
      try {
        assert.equal((await direct.txn(request(null, 'h1', { lane }))).kind, 'committed');
        etcd.kill('SIGKILL');
        const sent = request('h1', 'h2', { lane });
        assert.equal(summary(await direct.txn(sent)), 'unclear unavailable');
        assert.equal(summary(await direct.txn(sent)), 'unclear unavailable');
        await etcd.restart();
        await settle(direct, sent);
        assert.equal(read(etcd, keys.cursorKey(lane))!.value, 'h2');
      } finally {
        direct.close();
      }
    });

    it('go to the next endpoint where one does not answer', async () => {
      const lane = 9;
      const dead = await startProxy(etcd.endpoint);
      await dead.close();
      const silent = await startProxy(etcd.endpoint);
      silent.blackhole(true);
      const several = new TxnTransport({
        endpoints: [dead.endpoint, silent.endpoint, etcd.endpoint],
        deadlineMs: 500,
      });
      try {
        const seen: string[] = [];
        for (let i = 0; i < 3 && seen.at(-1) !== 'committed'; i++) {
          seen.push(summary(await several.txn(request(null, 'i1', { lane }))));
        }
        assert.equal(seen.at(-1), 'committed', seen.join(', '));
        assert.equal((await several.txn(request('i1', 'i2', { lane }))).kind, 'committed');
      } finally {
        several.close();
        await silent.close();
      }
    });

    it('after the close are unclear', async () => {
      const closed = new TxnTransport({ endpoints: [etcd.endpoint] });
      closed.close();
      assert.equal(summary(await closed.txn(request(null, 'j1', { lane: 10 }))), 'unclear unavailable');
    });
  });

  describe(`an etcd ${version} without space`, () => {
    it('makes transactions unclear, and settles them once there is space', async () => {
      const etcd = await startEtcd({ version, args: ['--quota-backend-bytes=2000000'] });
      const transport = new TxnTransport({ endpoints: [etcd.endpoint], deadlineMs: 3000 });
      try {
        putClaim(etcd);
        const filling = 'x'.repeat(200_000);
        let cursor: string | null = null;
        let last = '';
        let number = '';
        let sent: Uint8Array = new Uint8Array();
        for (let i = 10; i < 50 && last !== 'unclear noSpace'; i++) {
          number = String(i);
          const next = `${number}${filling}`;
          sent = request(cursor, next);
          last = summary(await transport.txn(sent));
          if (last === 'committed') cursor = next;
        }
        assert.equal(last, 'unclear noSpace');

        const head = JSON.parse(etcd.ctl('get', keys.claimKey, '-w', 'json')) as {
          header: { revision: number };
        };
        etcd.ctl('compact', String(head.header.revision));
        etcd.ctl('defrag');
        etcd.ctl('alarm', 'disarm');
        const answer = await settle(transport, sent);
        // Whether it had been applied with the error is etcd's to choose; that it is now, is not.
        const applied = await transport.txn(sent);
        assert.ok(applied.kind === 'conflict', `${answer.kind}, then ${applied.kind}`);
        assert.equal(Buffer.from(applied.cursor!.value.subarray(0, 2)).toString(), number);
      } finally {
        transport.close();
        await etcd.close();
      }
    });
  });
}
