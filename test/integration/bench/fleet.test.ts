import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { etcdBinary } from '../../support/etcd.js';

const fleet = fileURLToPath(new URL('../../../bench/fleet/fleet.js', import.meta.url));

/** Rejects unless it exits 0, which says that no promise was broken. */
async function run(...args: readonly string[]): Promise<string> {
  const env = { ...process.env, FLAPD_ETCD: etcdBinary() };
  return (await promisify(execFile)(process.execPath, [fleet, ...args], { env, maxBuffer: 2 ** 24 })).stdout;
}

interface Fleet {
  readonly hosts: number;
  readonly phases: readonly {
    readonly name: string;
    readonly committed: number;
    readonly hostTxnsPerSecondMax: number;
    readonly requests: { readonly total: number; readonly byMethod: Readonly<Record<string, number>> };
  }[];
  readonly atRest: { readonly watches: number; readonly connections: number };
  readonly history: { readonly transitions: number; readonly differences: readonly string[] };
  readonly invariants: readonly { readonly name: string; readonly ok: boolean }[];
}

describe('npm run bench:fleet', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'flapd-fleet-test-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('has every host of a fleet report everything once, within its limit, through starts, a storm and an outage', async () => {
    // Without these, it would wait for half a minute.
    const quick = ['limits.endpointCatchUp=2s', 'reader.confirmAfterOutage=1s', 'reader.confirmAfter=500ms'];
    const args = ['--hosts=20', '--processes=2', '--endpoints=5', '--seconds=2', '--idle=2', '--storm=30'];
    args.push(...quick.map((setting) => `--set=${setting}`));
    const result = JSON.parse(await run(...args, '--json', '--out', folder)) as Fleet;
    assert.equal(result.hosts, 20);
    const phases = new Map(result.phases.map((phase) => [phase.name, phase]));
    assert.deepEqual(
      [...phases.keys()],
      ['cold start', 'warm start', 'calm', 'storm', 'etcd restart', 'idle'],
    );
    assert.equal(phases.get('cold start')!.committed, 100, 'each endpoint once');
    assert.equal(phases.get('warm start')!.committed, 0);
    // A claim of each host, in each of its two lives.
    for (const name of ['cold start', 'warm start'])
      assert.ok(phases.get(name)!.requests.byMethod['Txn']! >= 20, name);
    // Two hosts storm, 30 a second for two seconds.
    assert.ok(phases.get('storm')!.committed >= 100, `${phases.get('storm')!.committed}`);
    assert.ok(phases.get('storm')!.hostTxnsPerSecondMax > 1);
    assert.deepEqual(result.history.differences, []);
    assert.ok(result.history.transitions > 200, `${result.history.transitions}`);
    assert.deepEqual(
      result.invariants.filter(({ ok }) => !ok),
      [],
    );
    assert.deepEqual(JSON.parse(readFileSync(join(folder, 'fleet.json'), 'utf8')), result);
  });

  it('says how it is used, and refuses what is no number', async () => {
    assert.match(await run('--help'), /--hosts N/);
    await assert.rejects(run('--hosts=many'), /--hosts: many is no whole number/);
    await assert.rejects(run('--set=limits.brust=1'), /there is no setting limits.brust/);
  });
});
