import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  defaultWorkers,
  WorkerPool,
  type WorkerPoolOptions,
  type WorkerStartError,
} from '../../../src/etcd/pool.js';
import type { Turn, WorkerFault } from '../../../src/etcd/task.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { until } from '../../support/waiting.js';
import { keys, putClaim, read, request, summary } from './fixture.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-pool-'));
after(() => rmSync(folder, { recursive: true }));

let lanes = 0;
/** A lane of its own for each: what another test wrote is not in the way. */
const fresh = () => lanes++;
/** The lane's transaction of that number; `after`: it follows that one. */
const turn = (lane: number, attempt = 1, after: number | null = null): Turn => ({ lane, attempt, after });

describe('the worker threads', () => {
  let etcd: Etcd;
  before(async () => {
    process.env.FLAPD_FAULTS = '1';
    etcd = await startEtcd();
    putClaim(etcd);
  });
  after(async () => {
    delete process.env.FLAPD_FAULTS;
    await etcd.close();
  });

  async function withPool(
    parts: Partial<WorkerPoolOptions>,
    use: (pool: WorkerPool, replaced: string[]) => Promise<void>,
  ): Promise<void> {
    const replaced: string[] = [];
    const pool = new WorkerPool({
      connection: { endpoints: [etcd.endpoint] },
      lanes: 4,
      workers: 1,
      rate: { txnsPerSecond: 0, burst: 0 },
      onFatal: (error) => assert.fail(error),
      onReplaced: (why) => replaced.push(why),
      ...parts,
    });
    await pool.start();
    try {
      await use(pool, replaced);
    } finally {
      await pool.close();
    }
  }

  it('carry out transactions, and say how long it took', async () => {
    await withPool({}, async (pool) => {
      const lane = fresh();
      const { answer, durationMs, waitedMs } = await pool.run(turn(lane), request(null, 'a', { lane }));
      assert.equal(summary(answer), 'committed');
      assert.ok(durationMs > 0 && waitedMs >= 0);
    });
  });

  it('leave the request as it is, so that the same can be sent again', async () => {
    await withPool({}, async (pool) => {
      const lane = fresh();
      const sent = () => request(null, 'a', { lane });
      assert.equal(summary((await pool.run(turn(lane), sent())).answer), 'committed');
      const { answer } = await pool.run(turn(lane), sent());
      assert.ok(answer.kind === 'conflict', answer.kind);
      assert.equal(Buffer.from(answer.cursor!.value).toString(), 'a');
    });
  });

  it('share the work out', async () => {
    await withPool({ workers: 3 }, async (pool) => {
      const answers = await Promise.all(
        Array.from({ length: 12 }, () => {
          const lane = fresh();
          return pool.run(turn(lane), request(null, 'a', { lane }));
        }),
      );
      assert.deepEqual(new Set(answers.map(({ answer }) => summary(answer))), new Set(['committed']));
    });
  });

  it('hold back no sender that keeps to the rate, and one that does not', async () => {
    await withPool({ workers: 2, rate: { txnsPerSecond: 2, burst: 4 } }, async (pool) => {
      const send = async () => {
        const lane = fresh();
        return (await pool.run(turn(lane), request(null, 'a', { lane }))).waitedMs;
      };
      const within = await Promise.all(Array.from({ length: 6 }, send));
      const beyond = await Promise.all([send(), send()]);
      assert.ok(Math.max(...within) < Math.min(...beyond), `${within} < ${beyond}`);
      // From here on, as much as anyone likes.
      pool.setRate({ txnsPerSecond: 0, burst: 0 });
      const free = await Promise.all(Array.from({ length: 20 }, send));
      assert.ok(Math.max(...free) < Math.min(...beyond), `${free} < ${beyond}`);
    });
  });

  it('send what follows another one as soon as that has committed', async () => {
    await withPool({ workers: 3 }, async (pool) => {
      const lane = fresh();
      const results = await Promise.all([
        pool.run(turn(lane, 1), request(null, 'a', { lane })),
        pool.run(turn(lane, 2, 1), request('a', 'b', { lane })),
      ]);
      const third = await pool.run(turn(lane, 3, 2), request('b', 'c', { lane }));
      assert.deepEqual(
        [...results, third].map(({ answer }) => summary(answer)),
        ['committed', 'committed', 'committed'],
      );
      assert.equal(read(etcd, keys.cursorKey(lane))!.value, 'c');
    });
  });

  it('send nothing that follows one that has not committed, or one that they do not know', async () => {
    await withPool({}, async (pool) => {
      const lane = fresh();
      const [first, second] = await Promise.all([
        pool.run(turn(lane, 1), request('not what it holds', 'a', { lane })),
        pool.run(turn(lane, 2, 1), request(null, 'b', { lane })),
      ]);
      assert.deepEqual([first.answer.kind, second.answer.kind], ['conflict', 'notSent']);
      const third = await pool.run(turn(lane, 3, 1), request(null, 'c', { lane }));
      const fourth = await pool.run(turn(lane, 5, 4), request(null, 'c', { lane }));
      assert.deepEqual([third.answer.kind, fourth.answer.kind], ['notSent', 'notSent']);
      assert.equal(read(etcd, keys.cursorKey(lane)), null);
    });
  });

  it('do not send what was withdrawn in time; another one can take its place', async () => {
    etcd.kill('SIGSTOP');
    try {
      await withPool({}, async (pool) => {
        const lane = fresh();
        const first = pool.run(turn(lane, 1), request(null, 'a', { lane }));
        const second = pool.run(turn(lane, 2, 1), request('a', 'b', { lane }));
        pool.withdraw(lane, 2);
        assert.equal((await second).answer.kind, 'notSent');
        const third = pool.run(turn(lane, 3, 1), request('a', 'c', { lane }));
        pool.withdraw(lane, 2); // once more changes nothing
        etcd.kill('SIGCONT');
        assert.deepEqual(
          [summary((await first).answer), summary((await third).answer)],
          ['committed', 'committed'],
        );
        pool.withdraw(lane, 3); // too late
        assert.equal(read(etcd, keys.cursorKey(lane))!.value, 'c');
      });
    } finally {
      etcd.kill('SIGCONT');
    }
  });

  it('that fail leave unclear what was to follow, too', async () => {
    await withPool({}, async (pool) => {
      const lane = fresh();
      const results = await Promise.all([
        pool.run(turn(lane, 1), request(null, 'a', { lane })),
        pool.run(turn(lane, 2, 1), request('a', 'b', { lane }), 'exit'),
      ]);
      assert.equal(summary(results[1].answer), 'unclear worker');
      // Its successor knows nothing of the one before.
      assert.equal((await pool.run(turn(lane, 3, 2), request('b', 'c', { lane }))).answer.kind, 'notSent');
    });
  });

  it('that are out of service get nothing more to send', async () => {
    await withPool({}, async (pool) => {
      const lane = fresh();
      await pool.run(turn(lane, 1), request(null, 'a', { lane }));
      await pool.rebuild();
      assert.equal((await pool.run(turn(lane, 2, 1), request('a', 'b', { lane }))).answer.kind, 'notSent');
      assert.equal(summary((await pool.run(turn(lane, 2), request('a', 'b', { lane }))).answer), 'committed');
    });
  });

  const faults: [fault: WorkerFault, message: RegExp, parts: Partial<WorkerPoolOptions>][] = [
    ['throw', /told to throw/, {}],
    ['exit', /exited/, {}],
    ['outOfMemory', /memory/, { memoryMiB: 24 }],
    ['hang', /has not answered for 1000 ms/, { hangMs: 1000 }],
  ];
  for (const [fault, message, parts] of faults) {
    it(`are replaced where one fails (${fault}), and its transactions are unclear`, async () => {
      await withPool(parts, async (pool, replaced) => {
        const lane = fresh();
        const sent = () => request(null, 'a', { lane });
        const { answer } = await pool.run(turn(lane), sent(), fault);
        assert.ok(answer.kind === 'unclear' && answer.reason === 'worker', JSON.stringify(answer));
        assert.match(answer.message, message);
        assert.equal(replaced.length, 1);
        assert.equal(summary((await pool.run(turn(lane), sent())).answer), 'committed');
        assert.equal(read(etcd, keys.cursorKey(lane))!.version, 1);
      });
    });
  }

  it('are replaced where one throws outside of any task', async () => {
    await withPool({}, async (pool, replaced) => {
      const lane = fresh();
      await pool.run(turn(lane), request(null, 'a', { lane }), 'throwOutside');
      await until('the replacement', () => replaced.length === 1);
      assert.match(replaced[0]!, /outside of its task/);
      // Whether its transaction was carried out before is a race; that the next ones are, is not.
      const next = fresh();
      assert.equal(
        summary((await pool.run(turn(next), request(null, 'a', { lane: next }))).answer),
        'committed',
      );
    });
  });

  it('that hang take only their own transactions with them', async () => {
    await withPool({ workers: 2, hangMs: 1000 }, async (pool, replaced) => {
      const [hung, well] = [fresh(), fresh()];
      const results = await Promise.all([
        pool.run(turn(hung), request(null, 'a', { lane: hung }), 'hang'),
        pool.run(turn(well), request(null, 'a', { lane: well })),
      ]);
      assert.deepEqual(
        results.map(({ answer }) => summary(answer)),
        ['unclear worker', 'committed'],
      );
      assert.equal(replaced.length, 1);
    });
  });

  it('ignore requests for faults where they are not allowed', async () => {
    delete process.env.FLAPD_FAULTS;
    try {
      await withPool({}, async (pool, replaced) => {
        const lane = fresh();
        assert.equal(
          summary((await pool.run(turn(lane), request(null, 'a', { lane }), 'exit')).answer),
          'committed',
        );
        assert.deepEqual(replaced, []);
      });
    } finally {
      process.env.FLAPD_FAULTS = '1';
    }
  });

  const worker = (name: string, source: string) => {
    writeFileSync(join(folder, name), source);
    return pathToFileURL(join(folder, name));
  };

  for (const [how, source] of [
    ['throws', "throw new Error('broken at its start');"],
    ['exits', 'process.exit(9);'],
    ['hangs', 'for (;;);'],
  ] as const) {
    it(`do not start where each ${how} at its start: a clear error`, async () => {
      const pool = new WorkerPool({
        connection: { endpoints: [etcd.endpoint] },
        lanes: 1,
        workers: 1,
        rate: { txnsPerSecond: 0, burst: 0 },
        hangMs: 200,
        onFatal: (error) => assert.fail(error),
        workerUrl: worker(`${how}.mjs`, source),
      });
      await assert.rejects(pool.start(), (error: WorkerStartError) => {
        assert.equal(error.code, 'WORKER_START');
        assert.match(error.message, /3 worker threads in a row failed at their start/);
        return true;
      });
      await pool.close();
    });
  }

  it('are given up where three in a row fail at their start later on', async () => {
    const flag = join(folder, 'broken');
    const url = worker(
      'later.mjs',
      `import { existsSync } from 'node:fs';
       if (existsSync(${JSON.stringify(flag)})) throw new Error('broken by now');
       export default ({ port }) => new Promise(() => port.on('message', (requests) => {
         if (requests.some(({ task }) => task.fault)) process.exit(1);
         port.postMessage(requests.map(({ id }) => ({ id, result: null })));
       }));`,
    );
    const fatal: WorkerStartError[] = [];
    await withPool({ workerUrl: url, onFatal: (error) => fatal.push(error) }, async (pool) => {
      writeFileSync(flag, '');
      const { answer } = await pool.run(turn(0), request(null, 'a'), 'exit');
      assert.equal(summary(answer), 'unclear worker');
      await until('the end', () => fatal.length > 0);
      assert.match(fatal[0]!.message, /broken by now/);
      assert.equal(summary((await pool.run(turn(0), request(null, 'a'))).answer), 'unclear worker');
    });
    assert.equal(fatal.length, 1);
  });

  it('are rebuilt with another connection, while transactions go on', async () => {
    await withPool({ connection: { endpoints: ['http://127.0.0.1:1'] } }, async (pool, replaced) => {
      const lane = fresh();
      const sent = () => request(null, 'a', { lane });
      assert.equal(summary((await pool.run(turn(lane), sent())).answer), 'unclear unavailable');
      await pool.rebuild({ endpoints: [etcd.endpoint] });
      assert.equal(summary((await pool.run(turn(lane), sent())).answer), 'committed');
      assert.deepEqual(replaced, []);
    });
  });

  it('go on as they are where the new ones do not start', async () => {
    await withPool({}, async (pool) => {
      const broken = { endpoints: [etcd.endpoint], user: 'u', passwordFile: join(folder, 'missing') };
      await assert.rejects(pool.rebuild(broken), /cannot read etcd's password/);
      const lane = fresh();
      assert.equal(summary((await pool.run(turn(lane), request(null, 'a', { lane }))).answer), 'committed');
    });
  });

  it('end by the deadline, with what is under way as unclear', async () => {
    await withPool({ hangMs: 60_000 }, async (pool, replaced) => {
      const running = pool.run(turn(0), request(null, 'a'), 'hang');
      await pool.close({ deadlineMs: 50 });
      assert.equal(summary((await running).answer), 'unclear worker');
      assert.equal(summary((await pool.run(turn(0), request(null, 'a'))).answer), 'unclear worker');
      assert.deepEqual(replaced, []);
    });
  });

  it('that are closed while they start leave nothing behind', async () => {
    const pool = new WorkerPool({
      connection: { endpoints: ['http://127.0.0.1:1'] },
      lanes: 1,
      rate: { txnsPerSecond: 0, burst: 1 },
      onFatal: (error) => assert.fail(error),
    });
    const started = pool.start();
    await pool.close();
    await started;
    const { answer } = await pool.run(turn(0), new Uint8Array());
    assert.equal(answer.kind, 'unclear');
    assert.deepEqual(
      process.getActiveResourcesInfo().filter((resource) => resource === 'MessagePort'),
      [],
    );
  });

  it('are as many as suit the machine', () => {
    assert.deepEqual([1, 2, 3, 5, 64].map(defaultWorkers), [1, 1, 2, 4, 4]);
  });
});
