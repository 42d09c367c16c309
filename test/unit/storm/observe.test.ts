import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Status } from '../../../src/endpoints/status.js';
import { Latencies } from '../../../src/storm/observe/latency.js';
import { judgeSpacing } from '../../../src/storm/observe/spacing.js';
import { Tracker, watchJitterMs } from '../../../src/storm/observe/tracker.js';
import { parseUsage } from '../../../src/storm/subject/usage.js';

const { up, down, removed } = Status;

describe('latencies', () => {
  it('are exact percentiles by nearest rank, whatever the order', () => {
    const latencies = new Latencies(4);
    for (let i = 100; i >= 1; i--) latencies.add(i);
    assert.deepEqual(latencies.percentiles(), { p50: 50, p99: 99 });
    assert.equal(latencies.count, 100);
  });

  it('of one are that one, and of none are no figure', () => {
    const latencies = new Latencies(1);
    assert.equal(latencies.percentiles(), null);
    latencies.add(17.00049);
    assert.deepEqual(latencies.percentiles(), { p50: 17, p99: 17 });
  });
});

describe('following a storm', () => {
  const expected = [[down, up, removed, down, up], [up]];

  it('pairs the k-th commit of an endpoint with the k-th that was told of it', () => {
    const tracker = new Tracker({
      expected,
      initial: null,
      hot: true,
      confirmAfterMs: Number.POSITIVE_INFINITY,
    });
    tracker.told(0, 1, 100);
    tracker.told(0, 1, 110);
    tracker.told(1, 1, 120);
    tracker.seen(0, down, 150);
    tracker.seen(1, up, 160);
    tracker.seen(0, up, 170);
    assert.equal(tracker.complete, false);
    tracker.told(0, 1, 200);
    tracker.told(0, 2, 210); // up after a removal: down, up
    tracker.seen(0, removed, 220);
    tracker.seen(0, down, 230);
    tracker.seen(0, up, 250);
    assert.equal(tracker.complete, true);
    assert.deepEqual(tracker.hot.percentiles(), { p50: 40, p99: 60 });
    assert.deepEqual(tracker.others.percentiles(), { p50: 40, p99: 40 });
    assert.equal(tracker.all.count, 6);
    assert.deepEqual(tracker.committedAtMs, [[150, 170, 220, 230, 250], [160]]);
  });

  it('counts a status put once more apart', () => {
    const tracker = new Tracker({
      expected: [[down]],
      initial: up,
      hot: false,
      confirmAfterMs: Number.POSITIVE_INFINITY,
    });
    tracker.told(0, 1, 1);
    tracker.seen(0, up, 2);
    tracker.seen(0, down, 3);
    tracker.seen(0, down, 4);
    assert.equal(tracker.committed, 1);
    assert.equal(tracker.repeated, 2);
    assert.equal(tracker.repeatedTooSoon, 2, 'none is a confirming write, since there are none');
    assert.equal(tracker.lastCommitAtMs, 3);
  });

  it('tells a confirming write from one that came twice by when it comes', () => {
    const tracker = new Tracker({ expected: [[down]], initial: up, hot: false, confirmAfterMs: 2000 });
    tracker.told(0, 1, 0);
    tracker.seen(0, down, 1000);
    tracker.seen(0, down, 3000 - watchJitterMs);
    assert.equal(tracker.repeatedTooSoon, 0);
    tracker.seen(0, down, 4899 - watchJitterMs);
    assert.equal(tracker.repeatedTooSoon, 1);
    assert.equal(tracker.repeated, 2);
  });
});

describe('spacing', () => {
  const rule = { endpointDelayMs: 1000, endpointCatchUpMs: 10_000 };

  it('is the endpoint delay where little is pending', () => {
    const told = [[0, 10, 20]];
    assert.deepEqual(judgeSpacing(rule, told, [[100, 1100, 2105.04]]), { min: 1000, violations: 0 });
    assert.deepEqual(judgeSpacing(rule, told, [[100, 1100, 1900]]), { min: 800, violations: 1 });
  });

  it('excuses a gap that is shorter by no more than a watch may be late', () => {
    assert.equal(judgeSpacing(rule, [[0, 1]], [[100, 1100 - watchJitterMs]]).violations, 0);
    assert.equal(judgeSpacing(rule, [[0, 1]], [[100, 1099 - watchJitterMs]]).violations, 1);
  });

  it('shrinks with the backlog, but never to nothing', () => {
    const told = [Array.from({ length: 101 }, () => 0)]; // 101 pending before the first: 79 ms apart
    assert.equal(judgeSpacing(rule, told, [[10, 110]]).violations, 0);
    assert.equal(judgeSpacing(rule, told, [[10, 48]]).violations, 1);
  });

  it('counts as pending only what had been told by then', () => {
    const told = [[0, 10, ...Array.from({ length: 99 }, () => 5000)]];
    assert.equal(judgeSpacing(rule, told, [[100, 250]]).violations, 1);
  });

  it('asks nothing between endpoints', () => {
    assert.deepEqual(judgeSpacing(rule, [[0], [0]], [[100], [101]]), { min: null, violations: 0 });
  });
});

describe('what a process has cost', () => {
  it('is read from the kernel, whatever the process is called', () => {
    const stat = '42 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 11 0 100 1000 2000';
    const status = 'Name:\ta ) b\nVmPeak:\t 9999 kB\nVmHWM:\t   65536 kB\nVmRSS:\t 100 kB\n';
    assert.deepEqual(parseUsage(stat, status), { cpuMicros: 3_000_000, rssKiBMax: 65_536 });
  });
});
