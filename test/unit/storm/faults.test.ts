import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Faults } from '../../../src/storm/faults.js';
import {
  chaosEtcdKills,
  chaosFlapdKills,
  type Fault,
  type FaultOptions,
  planFaults,
} from '../../../src/storm/plan/faults.js';

const quiet: FaultOptions = {
  seed: 7,
  chaos: false,
  flapdKills: chaosFlapdKills,
  etcdKillAt: null,
  etcdStopAt: null,
  etcdStopForMs: 5000,
};

describe('the faults of a storm', () => {
  it('are none unless asked for', () => {
    assert.deepEqual(planFaults(quiet), []);
  });

  it('come where they were asked for', () => {
    assert.deepEqual(planFaults({ ...quiet, etcdKillAt: 0.7, etcdStopAt: 0.2 }), [
      { kind: 'stopEtcd', at: 0.2, delayMs: 0, stoppedMs: 5000 },
      { kind: 'killEtcd', at: 0.7, delayMs: 0, downMs: 500 },
    ]);
  });

  it('with chaos, kill flapd and etcd as often as promised, spread over the whole storm, whatever the seed', () => {
    for (let seed = 0; seed < 200; seed++) {
      const faults = planFaults({ ...quiet, seed, chaos: true });
      assert.deepEqual(faults, planFaults({ ...quiet, seed, chaos: true }), 'the seed decides');
      const flapd = faults.filter(({ kind }) => kind === 'killFlapd');
      assert.ok(flapd.length >= chaosFlapdKills, `seed ${seed}: flapd is killed ${flapd.length} times`);
      assert.ok(faults.length - flapd.length >= chaosEtcdKills, `seed ${seed}`);
      assert.ok(
        faults.every(({ at }) => at > 0 && at <= 0.95),
        `seed ${seed}`,
      );
      assert.ok(flapd[0]!.at < 0.1 && flapd.at(-1)!.at > 0.8, `seed ${seed}: not spread`);
    }
  });

  it('kill flapd as often as they are told to', () => {
    const faults = planFaults({ ...quiet, chaos: true, flapdKills: 100 });
    const kills = faults.filter(({ kind }) => kind === 'killFlapd');
    assert.ok(kills.length >= 100 && kills.length < 103, String(kills.length));
    assert.equal(new Set(kills.map(({ at }) => at)).size, kills.length, 'each at a moment of its own');
  });

  it('hold the storm back until they have come, then let it go on', async () => {
    const faults: Fault[] = [
      { kind: 'killFlapd', at: 0.25, delayMs: 0 },
      { kind: 'killEtcd', at: 0.5, delayMs: 0, downMs: 0 },
    ];
    let share = 0;
    const done: string[] = [];
    const over: string[] = [];
    const gates: number[] = [];
    const running = new Faults(
      faults,
      10_000,
      {
        killFlapd: async () => void done.push('flapd'),
        killEtcd: async () => void done.push('etcd'),
        stopEtcd: async () => void done.push('stop'),
      },
      () => share,
      {
        fault: (kind, phase) => {
          if (phase !== 'over') return;
          over.push(kind);
          gates.push(running.gate());
          share = 0.5;
        },
      },
    );
    assert.equal(running.gate(), 2700, 'a fiftieth of the storm goes on beyond the first fault');
    share = 0.25;
    await running.run(new AbortController().signal);
    assert.deepEqual(done, ['flapd', 'etcd']);
    assert.deepEqual(over, ['killFlapd', 'killEtcd']);
    assert.deepEqual(gates, [5200, Number.POSITIVE_INFINITY]);
  });

  it('end with the storm', async () => {
    const stop = new AbortController();
    const running = new Faults(
      [{ kind: 'killFlapd', at: 0.5, delayMs: 0 }],
      100,
      { killFlapd: async () => undefined, killEtcd: async () => undefined, stopEtcd: async () => undefined },
      () => 0,
      { fault: () => assert.fail('no fault was due') },
    ).run(stop.signal);
    stop.abort();
    await assert.rejects(running, { name: 'AbortError' });
  });
});
