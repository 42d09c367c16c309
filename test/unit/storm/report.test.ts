import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { passed, type StormReport, describe as table } from '../../../src/storm/report.js';

const good: StormReport = {
  via: 'feed',
  endpoints: 5,
  seed: 1,
  production: false,
  sent: 100,
  committed: 100,
  lost: 0,
  duplicated: 0,
  reordered: 0,
  seconds: 0.5,
  transitionsPerSecond: 200,
  latencyMs: { p50: 1.5, p99: 20 },
  cpuMicrosPerTransition: 40,
  rssMiB: 80,
  confirmations: 0,
  flapdKills: 0,
  etcdKills: 0,
  etcdStops: 0,
  interrupted: false,
  problems: [],
};

describe('the outcome of a storm', () => {
  it('has passed where there is no problem and it went to its end', () => {
    assert.equal(passed(good), true);
    assert.equal(passed({ ...good, problems: ['lost 1'] }), false);
    assert.equal(passed({ ...good, interrupted: true }), false);
  });

  it('is a table that says only what there is to say', () => {
    const text = table(good);
    assert.match(text, /^sent +100 transitions of 5 endpoints via feed \(seed 1\)$/m);
    assert.match(text, /^latency +p50 1.5 ms, p99 20 ms$/m);
    assert.match(text, /^Passed/m);
    assert.doesNotMatch(text, /hot|faults|spacing|watch answers/);
  });

  it('names every problem, and what is not known', () => {
    const text = table({ ...good, lost: null, problems: ['etcd is gone', 'flapd as well'] });
    assert.match(text, /^lost +not known$/m);
    assert.match(text, /Failed:\n {2}- etcd is gone\n {2}- flapd as well$/);
  });

  it('tells of the hot endpoint, of faults, and of the checks of production', () => {
    const text = table({
      ...good,
      latencyMs: { p50: 1, p99: 2, hot: { p50: 3, p99: 4 }, others: null },
      flapdKills: 10,
      etcdKills: 3,
      watchAnswerBytesMax: 1763,
      spacingMs: { min: 998.5, violations: 0 },
    });
    assert.match(text, /hot endpoint +p50 3 ms, p99 4 ms\n +the others +-$/m);
    assert.match(text, /flapd killed 10 times, etcd killed 3 times/);
    assert.match(text, /1763 bytes at most/);
    assert.match(text, /998.5 ms at least, 0 too short/);
  });
});
