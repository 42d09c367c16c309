import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { Exposer, formatFor } from '../../../src/telemetry/exposition.js';
import { Metrics, type Readings } from '../../../src/telemetry/metrics.js';

const readings: Readings = {
  accepted: new Map([
    ['netlink up', 3],
    ['felix down', 2],
  ]),
  ignored: new Map([['unchanged', 7]]),
  pending: 4,
  oldestPendingSeconds: 1.5,
  endpoints: new Map([
    ['workload up', 10],
    ['host error', 1],
  ]),
  lanesInflight: 2,
  epoch: 9,
  etcdUp: true,
  txnRate: 50,
  netlink: { messages: 100, overruns: 1, malformed: 2, recoveredFlaps: 3 },
  frames: new Map([['felix ok', 5]]),
  sourcesInSync: new Map([
    ['netlink', true],
    ['felix', false],
  ]),
  journalBytes: 4096,
  journalAccepting: false,
  journalCutBytes: 0,
  workersReplaced: 1,
  foreignWrites: 2,
  datastore: { damages: 3, unreadable: 1 },
  certificateNotAfter: 2_000_000_000,
};

const open: Metrics[] = [];
afterEach(() => {
  for (const metrics of open.splice(0)) metrics.close();
});

function newMetrics(read: () => Readings = () => readings): Metrics {
  const metrics = new Metrics(read, '1.2.3');
  open.push(metrics);
  return metrics;
}

async function scrape(metrics: Metrics): Promise<string[]> {
  const { body } = await new Exposer(metrics.registry).render('prometheus');
  return body.split('\n');
}

test('what is counted from time to time is there before its first time: an alert would miss that otherwise', async () => {
  const lines = await scrape(newMetrics());
  for (const line of [
    'flapd_config_reloads_total{result="refused"} 0',
    'flapd_config_reloads_total{result="partly"} 0',
    'flapd_resync_runs_total{result="failed"} 0',
    'flapd_claims_total{reason="restored"} 0',
    'flapd_dead_letters_total 0',
  ])
    assert.ok(lines.includes(line), line);
});

test('what the daemon knows is read when it is asked for', async () => {
  const lines = await scrape(newMetrics());
  for (const line of [
    'flapd_transitions_accepted_total{source="netlink",status="up"} 3',
    'flapd_transitions_accepted_total{source="felix",status="down"} 2',
    'flapd_transitions_ignored_total{reason="unchanged"} 7',
    'flapd_pending_transitions 4',
    'flapd_oldest_pending_seconds 1.5',
    'flapd_endpoints{kind="workload",status="up"} 10',
    'flapd_endpoints{kind="host",status="error"} 1',
    'flapd_lane_inflight 2',
    'flapd_epoch 9',
    'flapd_etcd_up 1',
    'flapd_txn_rate 50',
    'flapd_netlink_messages_total 100',
    'flapd_netlink_overruns_total 1',
    'flapd_carrier_flaps_recovered_total 3',
    'flapd_feed_frames_total{source="felix",result="ok"} 5',
    'flapd_source_in_sync{source="netlink"} 1',
    'flapd_source_in_sync{source="felix"} 0',
    'flapd_journal_bytes 4096',
    'flapd_journal_accepting 0',
    'flapd_workers_replaced_total 1',
    `flapd_build_info{version="1.2.3",node="${process.version}"} 1`,
  ])
    assert.ok(lines.includes(line), line);
  assert.ok(lines.some((line) => line.startsWith('process_cpu_seconds_total ')));
});

test('endpoints are looked at once a scrape, and anew for the next one', async () => {
  let reads = 0;
  const metrics = newMetrics(() => {
    reads++;
    return { ...readings, pending: reads };
  });
  assert.ok((await scrape(metrics)).includes('flapd_pending_transitions 1'));
  assert.ok((await scrape(metrics)).includes('flapd_pending_transitions 2'));
});

test('what is no longer there is no longer said', async () => {
  let endpoints = new Map([['workload down', 1]]);
  const metrics = newMetrics(() => ({ ...readings, endpoints }));
  assert.ok((await scrape(metrics)).includes('flapd_endpoints{kind="workload",status="down"} 1'));
  endpoints = new Map();
  assert.ok(!(await scrape(metrics)).some((line) => line.startsWith('flapd_endpoints{')));
});

test('counters of the hot path go up from scrape to scrape', async () => {
  const metrics = newMetrics();
  metrics.committed += 5;
  metrics.confirmations++;
  metrics.recovered += 2;
  assert.ok((await scrape(metrics)).includes('flapd_transitions_committed_total 5'));
  metrics.committed += 2;
  const lines = await scrape(metrics);
  assert.ok(lines.includes('flapd_transitions_committed_total 7'));
  assert.ok(lines.includes('flapd_confirmations_total 1'));
  assert.ok(lines.includes('flapd_recovered_commits_total 2'));
});

test('the latency histogram counts as any other: cumulative, and kept over scrapes', async () => {
  const metrics = newMetrics();
  const buckets = async (): Promise<string[]> =>
    (await scrape(metrics)).filter((line) =>
      /^flapd_commit_latency_seconds_(bucket\{le="(0\.001|0\.002|0\.05|300|\+Inf)"|sum|count)/.test(line),
    );
  for (const seconds of [0.001, 0.0011, 0.04, 1000]) metrics.commitLatency.observe(seconds);
  assert.deepEqual(await buckets(), [
    'flapd_commit_latency_seconds_bucket{le="0.001"} 1',
    'flapd_commit_latency_seconds_bucket{le="0.002"} 2',
    'flapd_commit_latency_seconds_bucket{le="0.05"} 3',
    'flapd_commit_latency_seconds_bucket{le="300"} 3',
    'flapd_commit_latency_seconds_bucket{le="+Inf"} 4',
    'flapd_commit_latency_seconds_sum 1000.0421',
    'flapd_commit_latency_seconds_count 4',
  ]);
  metrics.commitLatency.observe(0);
  const again = await buckets();
  assert.equal(again[0], 'flapd_commit_latency_seconds_bucket{le="0.001"} 2');
  assert.equal(again.at(-1), 'flapd_commit_latency_seconds_count 5');
});

test('a histogram with a label counts for each of its values, and keeps them over scrapes', async () => {
  const metrics = newMetrics();
  const lines = async (): Promise<string[]> =>
    (await scrape(metrics)).filter((line) =>
      /^flapd_txn_duration_seconds_(bucket\{le="(0\.001|\+Inf)"|sum|count)/.test(line),
    );
  assert.deepEqual(await lines(), []);
  metrics.txnDuration.observe(0.001, 'committed');
  metrics.txnDuration.observe(2, 'committed');
  metrics.txnDuration.observe(5, 'timeout');
  assert.deepEqual(await lines(), [
    'flapd_txn_duration_seconds_bucket{le="0.001",result="committed"} 1',
    'flapd_txn_duration_seconds_bucket{le="+Inf",result="committed"} 2',
    'flapd_txn_duration_seconds_sum{result="committed"} 2.001',
    'flapd_txn_duration_seconds_count{result="committed"} 2',
    'flapd_txn_duration_seconds_bucket{le="0.001",result="timeout"} 0',
    'flapd_txn_duration_seconds_bucket{le="+Inf",result="timeout"} 1',
    'flapd_txn_duration_seconds_sum{result="timeout"} 5',
    'flapd_txn_duration_seconds_count{result="timeout"} 1',
  ]);
  metrics.txnDuration.observe(0, 'timeout');
  assert.equal((await lines()).at(-1), 'flapd_txn_duration_seconds_count{result="timeout"} 2');
});

test('two daemons in one process do not share their metrics', async () => {
  const [one, two] = [newMetrics(), newMetrics()];
  one.committed = 5;
  assert.ok((await scrape(two)).includes('flapd_transitions_committed_total 0'));
  assert.ok((await scrape(one)).includes('flapd_transitions_committed_total 5'));
});

test('every metric has a help text, a base unit, and no label for endpoints', async () => {
  const metrics = newMetrics();
  const described = (await metrics.registry.getMetricsAsJSON()).filter(({ name }) =>
    name.startsWith('flapd_'),
  );
  assert.ok(described.length > 25);
  for (const { name, help, type } of described) {
    assert.ok(help.length > 5, name);
    assert.doesNotMatch(name, /_(ms|millis|milliseconds|us|kib|mib)(_|$)/);
    assert.equal(name.endsWith('_total'), String(type) === 'counter', name);
  }
  for (const metric of metrics.registry.getMetricsAsArray())
    for (const label of (metric as unknown as { labelNames: string[] }).labelNames)
      assert.ok(!['endpoint', 'workload', 'key', 'interface', 'host'].includes(label), metric.name);
});

describe('formats', () => {
  test('OpenMetrics is given where it is asked for, and changes nothing for who asks for the other', async () => {
    const metrics = newMetrics();
    metrics.committed = 3;
    const exposer = new Exposer(metrics.registry);
    const texts = await Promise.all([
      exposer.render('prometheus'),
      exposer.render('openmetrics'),
      exposer.render('prometheus'),
      exposer.render('openmetrics'),
    ]);
    for (const i of [0, 2]) {
      assert.match(texts[i]!.contentType, /^text\/plain; version=0\.0\.4/);
      assert.match(
        texts[i]!.body,
        /^# TYPE flapd_transitions_committed_total counter\nflapd_transitions_committed_total 3$/m,
      );
      assert.doesNotMatch(texts[i]!.body, /# EOF/);
    }
    for (const i of [1, 3]) {
      assert.match(texts[i]!.contentType, /^application\/openmetrics-text; version=1\.0\.0/);
      assert.match(
        texts[i]!.body,
        /^# TYPE flapd_transitions_committed counter\nflapd_transitions_committed_total 3$/m,
      );
      assert.match(texts[i]!.body, /\n# EOF\n$/);
    }
  });

  test('a scrape that fails does not hold up the next one', async () => {
    let fails = true;
    const metrics = newMetrics(() => {
      if (fails) throw new Error('no reading');
      return readings;
    });
    const exposer = new Exposer(metrics.registry);
    await assert.rejects(exposer.render('openmetrics'), /no reading/);
    fails = false;
    assert.match((await exposer.render('prometheus')).body, /^flapd_transitions_committed_total 0$/m);
  });

  test('by the Accept header', () => {
    for (const [accept, expected] of [
      [undefined, 'prometheus'],
      ['*/*', 'prometheus'],
      ['text/plain;version=0.0.4;q=0.3', 'prometheus'],
      ['application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3', 'openmetrics'],
      ['text/plain, application/openmetrics-text', 'openmetrics'],
      ['application/x-openmetrics-text', 'prometheus'],
    ] as const)
      assert.equal(formatFor(accept), expected, accept);
  });
});
