import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { RateGate } from '../../../src/etcd/gate.js';

const job = async () => 'done';
/** Lets promises and p-queue's microtasks run. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

describe("a worker's rate gate", () => {
  it('lets everything through at once where there is no limit', async () => {
    const gate = new RateGate(4);
    const done = await Promise.all(Array.from({ length: 1000 }, () => gate.run(0, job)));
    assert.equal(done.length, 1000);
  });

  it('lets no more through in any second than it may, and the rest after that', async () => {
    mock.timers.enable({ apis: ['Date', 'setTimeout', 'setInterval'] });
    try {
      const gate = new RateGate(10);
      let through = 0;
      const submit = () => gate.run(3, async () => through++);
      const submitted = [submit(), submit()];
      await settle();
      mock.timers.tick(600);
      submitted.push(submit(), submit(), submit());
      await settle();
      assert.equal(through, 3);
      mock.timers.tick(399);
      await settle();
      assert.equal(through, 3);
      mock.timers.tick(1); // the first two are a second old
      await settle();
      assert.equal(through, 5);
      await Promise.all(submitted);
    } finally {
      mock.timers.reset();
    }
  });

  it('takes a changed limit from the next job on', async () => {
    mock.timers.enable({ apis: ['Date', 'setTimeout', 'setInterval'] });
    try {
      const gate = new RateGate(10);
      let through = 0;
      const count = async () => through++;
      void gate.run(1, count);
      void gate.run(1, count);
      await settle();
      assert.equal(through, 1);
      void gate.run(2, count);
      void gate.run(2, count);
      void gate.run(2, count);
      await settle();
      assert.equal(through, 3);
      mock.timers.tick(1000);
      await settle();
      assert.equal(through, 5);
    } finally {
      mock.timers.reset();
    }
  });

  it('has no more under way at a time than there are lanes, where there is a limit', async () => {
    const gate = new RateGate(2);
    let underWay = 0;
    let most = 0;
    const busy = async () => {
      most = Math.max(most, ++underWay);
      await settle();
      underWay--;
    };
    await Promise.all(Array.from({ length: 10 }, () => gate.run(1000, busy)));
    assert.equal(most, 2);
  });
});
