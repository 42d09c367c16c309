/** An etcd whose answers come later than flapd waits for them (fault 9). */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { Course } from '../support/course.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { type FaultyProxy, startProxy } from '../support/proxy.js';
import { until } from '../support/waiting.js';

describe('an etcd that answers after 3 s, where flapd waits for 2 s', () => {
  let etcd: Etcd;
  let proxy: FaultyProxy;
  before(async () => {
    etcd = await startEtcd();
    proxy = await startProxy(etcd.endpoint);
  });
  after(async () => {
    await proxy.close();
    await etcd.close();
  });
  afterEach(() => Course.closeAll());

  it('gets everything once, though no answer arrives; and nothing is left waiting when it is fast again', async () => {
    const course = await Course.start(etcd.endpoint, { through: proxy.endpoint });
    const { flapd } = course;
    await course.flap(5);
    await course.verify();
    proxy.delay(3000);
    await course.flap(5);
    await until('answers to be late', () => flapd.metric('flapd_txn_retries_total{reason="timeout"}'));
    await until('flapd to be not ready', async () => !(await flapd.get('/readyz')).ready);
    assert.ok((await flapd.metric('flapd_pending_transitions')) > 0, 'what is unclear counts as pending');
    const triesBefore = await tries(course);
    const beganAtMs = performance.now();
    await until('another round of tries', async () => (await tries(course)) >= triesBefore + 4, {
      deadlineMs: 20_000,
    });
    // Four lanes, each with one transaction under way, each of which takes its deadline: no storm of tries.
    const perSecond = ((await tries(course)) - triesBefore) / ((performance.now() - beganAtMs) / 1000);
    assert.ok(perSecond <= 4, `${perSecond} tries a second`);
    proxy.delay(0);
    await course.goesOn();
    assert.ok((await flapd.metric('flapd_recovered_commits_total')) > 0, 'late transactions were recovered');
    // etcd has it all before its last answer has come.
    await until('nothing to be pending', async () => (await flapd.metric('flapd_pending_transitions')) === 0);
    await flapd.ready();
    await course.end();
  });
});

async function tries(course: Course): Promise<number> {
  return await course.flapd.metric('flapd_txn_duration_seconds_count{result="timeout"}');
}
