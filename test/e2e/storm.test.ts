import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { type StormOutcome, StormProcess, storm } from '../support/storm.js';
import { until } from '../support/waiting.js';

/** Every transition is in etcd's history, once, in order: or the whole outcome is in the failure's message. */
function assertPassed({ code, report, errors }: StormOutcome, transitions: number) {
  assert.ok(report, `no report: exit code ${code}: ${errors}`);
  const { sent, committed, lost, duplicated, reordered, problems } = report;
  assert.deepEqual(
    { code, sent, committed, lost, duplicated, reordered, problems },
    {
      code: 0,
      sent: transitions,
      committed: transitions,
      lost: 0,
      duplicated: 0,
      reordered: 0,
      problems: [],
    },
    errors,
  );
  return report;
}

describe('a storm verified in the history of etcd', () => {
  it('through the feed socket: 50,000 transitions of 500 endpoints arrive, once, in order', async () => {
    const report = assertPassed(
      await storm('--etcd-embedded', '--via=feed', '--endpoints=500', '--transitions=50000', '--seed=1'),
      50_000,
    );
    assert.ok(report.cpuMicrosPerTransition! > 0 && report.rssMiB > 1 && report.transitionsPerSecond > 0);
    assert.ok(report.latencyMs.p50! > 0 && report.latencyMs.p99! >= report.latencyMs.p50!);
    assert.equal(report.confirmations, 0);
  });

  const netlink = ['--etcd-embedded', '--via=netlink', '--endpoints=50', '--transitions=2000', '--seed=1'];

  it('through real interfaces: 2,000 flaps of 50 veth pairs arrive, once, in order, however the kernel merges them', async () => {
    assertPassed(await storm(...netlink, '--removals=0'), 2000);
  });

  it('through real interfaces that are deleted and made again under the same name', async () => {
    assertPassed(await storm(...netlink, '--removals=0.1'), 2000);
  });

  it('survives etcd being killed in the middle and started again', async () => {
    const report = assertPassed(
      await storm(
        '--etcd-embedded',
        '--endpoints=100',
        '--transitions=20000',
        '--seed=2',
        '--etcd-kill-at=0.4',
      ),
      20_000,
    );
    assert.equal(report.etcdKills, 1);
  });

  it('survives etcd being stopped for five seconds', async () => {
    const report = assertPassed(
      await storm(
        '--etcd-embedded',
        '--endpoints=100',
        '--transitions=20000',
        '--seed=3',
        '--etcd-stop-at=0.4',
        '--etcd-stop-for=5',
      ),
      20_000,
    );
    assert.equal(report.etcdStops, 1);
  });

  it('survives chaos: flapd killed ten times at least and etcd three times at least', async () => {
    const report = assertPassed(
      await storm('--etcd-embedded', '--endpoints=200', '--transitions=20000', '--seed=7', '--chaos'),
      20_000,
    );
    assert.ok(report.flapdKills >= 10 && report.etcdKills >= 3, JSON.stringify(report));
  });

  it('survives chaos on real interfaces: their carrier counters tell what happened while flapd was dead', async () => {
    const report = assertPassed(
      await storm(
        '--etcd-embedded',
        '--via=netlink',
        '--endpoints=30',
        '--transitions=1000',
        '--seed=7',
        '--chaos',
      ),
      1000,
    );
    assert.ok(report.flapdKills >= 10 && report.etcdKills >= 3, JSON.stringify(report));
  });

  it('with one hot endpoint tells its latencies and those of the others apart', async () => {
    const { latencyMs } = assertPassed(
      await storm(
        '--etcd-embedded',
        '--endpoints=200',
        '--transitions=4000',
        '--hot=0.5',
        '--flap-rate=1000',
      ),
      4000,
    );
    assert.ok(latencyMs.hot!.p99 > 0 && latencyMs.others!.p99 > 0);
  });

  it('with the settings of production keeps watch answers short and transitions of an endpoint apart', async () => {
    const report = assertPassed(
      await storm('--production', '--etcd-embedded', '--via=feed', '--endpoints=50', '--transitions=500'),
      500,
    );
    assert.ok(
      report.watchAnswerBytesMax! > 200 && report.watchAnswerBytesMax! <= 2000,
      JSON.stringify(report),
    );
    assert.equal(report.spacingMs!.violations, 0);
    assert.ok(report.spacingMs!.min! > 100, JSON.stringify(report));
  });
});

describe('confirming writes in a storm', () => {
  it('are counted apart, and are no duplicates', async () => {
    const close = '--set=limits.endpointDelay=200ms';
    const report = assertPassed(
      await storm('--production', '--etcd-embedded', '--endpoints=20', '--transitions=200', close),
      200,
    );
    assert.ok(report.confirmations > 0, JSON.stringify(report));
  });
});

describe('a storm that finds something', () => {
  let etcd: Etcd;
  before(async () => {
    etcd = await startEtcd();
  });
  after(() => etcd.close());

  const slow = (): string[] => [
    '--etcd',
    etcd.endpoint,
    '--endpoints=5',
    '--transitions=2000',
    '--flap-rate=500',
  ];
  const keys = (): string[] => etcd.ctl('get', '--prefix', '--keys-only', '').split('\n').filter(Boolean);

  it('fails where somebody else has written a status, and says which key', async () => {
    const running = new StormProcess(...slow());
    await running.committed(500);
    const [key] = keys().filter((name) => name.includes('/workload/'));
    etcd.ctl('put', key!, '{"status":"error"}');
    const { code, report } = await running.ended;
    assert.equal(code, 1);
    assert.ok(report!.duplicated! + report!.reordered! + report!.lost! > 0, JSON.stringify(report));
    assert.ok(report!.problems.join().includes(key!), JSON.stringify(report));
  });

  it('fails where flapd ends by itself, with its last words', async () => {
    const running = new StormProcess(...slow());
    await running.committed(500);
    process.kill((await running.event('flapd')).pid, 'SIGKILL');
    const { code, report } = await running.ended;
    assert.equal(code, 1);
    assert.match(report!.problems.join(), /flapd ended by itself with signal SIGKILL/);
    assert.ok(report!.sent < 2000 && report!.committed >= 500, JSON.stringify(report));
  });

  it('fails with production settings switched off that it checks', async () => {
    const { code, report } = await storm(
      '--production',
      ...['--etcd', etcd.endpoint, '--endpoints=50', '--transitions=500'],
      ...['--set=limits.endpointDelay=0', '--set=txn.watchBytesMax=0', '--set=limits.txnsPerSecond=0'],
    );
    assert.equal(code, 1);
    assert.ok(report!.watchAnswerBytesMax! > 2000, JSON.stringify(report));
    assert.match(report!.problems.join(), /bytes: 2000 are allowed/);
    assert.deepEqual([report!.lost, report!.duplicated, report!.reordered], [0, 0, 0]);
  });

  it('leaves nothing behind: no keys, no processes, no directories, and neither when it is interrupted', async () => {
    const temporary = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    const before = process.env.TMPDIR;
    process.env.TMPDIR = temporary;
    try {
      const running = new StormProcess(...slow());
      await running.committed(100);
      const { pid } = await running.event('flapd');
      running.kill('SIGINT');
      const { code, report } = await running.ended;
      assert.equal(code, 130);
      assert.equal(report!.interrupted, true);
      assert.ok(report!.committed >= 100 && report!.sent < 2000, JSON.stringify(report));
      await until('flapd to be gone', () => !existsSync(`/proc/${pid}`));
      assert.deepEqual(readdirSync(temporary), []);
      assert.deepEqual(keys(), []);
    } finally {
      if (before === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = before;
      rmSync(temporary, { recursive: true, force: true });
    }
  });

  it('keeps its keys where it is told to', async () => {
    assertPassed(await storm('--etcd', etcd.endpoint, '--endpoints=3', '--transitions=30', '--keep'), 30);
    assert.ok(
      keys().some((name) => name.includes('/workload/')),
      keys().join(),
    );
    etcd.ctl('del', '--prefix', '');
  });
});

describe('a storm that cannot begin', () => {
  const cases: readonly (readonly [string, readonly string[], number, RegExp])[] = [
    ['without an etcd', [], 64, /--etcd-embedded/],
    ['with two of them', ['--etcd=http://127.0.0.1:1', '--etcd-embedded'], 64, /choose one/],
    [
      'with chaos in an etcd that is not its own',
      ['--etcd=http://127.0.0.1:1', '--chaos'],
      64,
      /storm's own/,
    ],
    ['through netlink to an etcd outside', ['--etcd=http://127.0.0.1:1', '--via=netlink'], 64, /namespace/],
    [
      'with chaos and removals of interfaces',
      ['--etcd-embedded', '--via=netlink', '--chaos', '--removals=0.1'],
      64,
      /leaves no trace/,
    ],
    ['with kills and no chaos', ['--etcd-embedded', '--kills=5'], 64, /add --chaos/],
    ['with no endpoints', ['--etcd-embedded', '--endpoints=0'], 64, /whole number/],
    ['with a share that is none', ['--etcd-embedded', '--hot=50%'], 64, /between 0 and 1/],
    [
      'with a setting that there is not',
      ['--etcd-embedded', '--set=limits.nonsense=1'],
      64,
      /limits\.nonsense/,
    ],
    ['with a setting that makes no sense', ['--etcd-embedded', '--set=lanes=many'], 78, /lanes/],
    ['where etcd does not answer', ['--etcd=http://127.0.0.1:1'], 69, /does not answer/],
  ];
  for (const [name, args, code, words] of cases) {
    it(`says so: ${name}`, async () => {
      const outcome = await storm(...args);
      assert.equal(outcome.code, code, outcome.errors);
      assert.match(outcome.errors, words);
      assert.equal(outcome.report, null);
    });
  }
});
