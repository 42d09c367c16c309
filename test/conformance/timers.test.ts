/** The timers of a fleet must not go as one: Felix's are jittered by a tenth, and so is the resync here. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { Etcd3 } from 'etcd3';
import type { Driver } from '../../src/daemon/driver.js';
import { Resync } from '../../src/daemon/etcd/resync.js';
import { EndpointRegistry } from '../../src/endpoints/registry.js';
import { backoffMs, claimBackoff, laneBackoff } from '../../src/reporter/backoff.js';
import { where } from '../support/host.js';

const intervalMs = 90_000;

/** How long after a run with this outcome the next one is set for, where the dice show `random`. */
async function nextRunMs(t: TestContext, random: number, list: () => Promise<unknown>): Promise<number> {
  t.mock.method(Math, 'random', () => random);
  const waits: number[] = [];
  const begin: (() => void)[] = [];
  const timers = t.mock.method(globalThis, 'setTimeout', (callback: () => void, afterMs: number) => {
    waits.push(afterMs);
    begin.push(callback);
    return {} as NodeJS.Timeout;
  });
  const clear = t.mock.method(globalThis, 'clearTimeout', () => undefined);
  const resync = new Resync({
    driver: {
      beginResync: () => undefined,
      resync: () => ({ put: 0, repaired: 0, deleted: 0 }),
    } as unknown as Driver,
    registry: new EndpointRegistry(where, () => undefined),
    client: () => ({ kv: { range: list } }) as unknown as Etcd3,
    intervalMs: () => intervalMs,
    inSync: () => true,
    undecided: () => new Set(),
    onResult: () => undefined,
    onError: () => undefined,
  });
  try {
    resync.now();
    assert.deepEqual(waits, [0]);
    begin[0]!();
    await new Promise<void>((resolve) => {
      const look = (): unknown => (waits.length > 1 ? resolve() : setImmediate(look));
      look();
    });
  } finally {
    resync.stop();
    timers.mock.restore();
    clear.mock.restore();
    t.mock.restoreAll();
  }
  return waits[1]!;
}

describe('the timers', () => {
  const nothing = async () => ({ header: { revision: '7' }, kvs: [], more: false });

  for (const [random, expected] of [
    [0, 0.9 * intervalMs],
    [0.5, intervalMs],
    [1 - Number.EPSILON, 1.1 * intervalMs],
  ] as const) {
    it(`set the next resync a tenth around its interval: at ${random} it is in ${Math.round(expected / 1000)} s`, async (t) => {
      assert.ok(Math.abs((await nextRunMs(t, random, nothing)) - expected) < 1);
    });
  }

  it('set a resync that could not list for sooner, whatever the interval is, and not for all hosts at once', async (t) => {
    const failing = () => Promise.reject(new Error('14 UNAVAILABLE'));
    assert.equal(await nextRunMs(t, 0, failing), 2500);
    assert.equal(await nextRunMs(t, 0.5, failing), 3750);
  });

  it('spread what is tried again over the upper half of its time', () => {
    for (const options of [laneBackoff, claimBackoff]) {
      for (let failures = 1; failures < 40; failures++) {
        const ceiling = Math.min(options.maxMs, options.firstMs * 2 ** (failures - 1));
        assert.equal(backoffMs(failures, options, 0), ceiling / 2);
        assert.equal(backoffMs(failures, options, 0.5), ceiling * 0.75);
        assert.ok(backoffMs(failures, options, 1 - Number.EPSILON) <= ceiling);
      }
    }
  });
});
