/** flapd killed again and again within one storm (fault 1). */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { storm } from '../support/storm.js';

describe('a flapd that is killed (-9) a hundred times within one storm', () => {
  it('has brought every transition to etcd, once and in order, though etcd was killed as well', async () => {
    const { code, report, errors } = await storm(
      ...['--etcd-embedded', '--endpoints=100', '--transitions=20000', '--seed=3'],
      ...['--chaos', '--kills=100'],
    );
    assert.ok(report, `no report: exit code ${code}: ${errors}`);
    const { sent, committed, lost, duplicated, reordered, problems } = report;
    assert.deepEqual(
      { code, sent, committed, lost, duplicated, reordered, problems },
      { code: 0, sent: 20_000, committed: 20_000, lost: 0, duplicated: 0, reordered: 0, problems: [] },
      errors,
    );
    assert.ok(report.flapdKills >= 100 && report.etcdKills >= 3, JSON.stringify(report));
  });
});
