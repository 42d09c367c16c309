import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { targets } from '../../../bench/macro/targets.js';
import type { Result } from '../../../bench/result.js';
import { etcdBinary } from '../../support/etcd.js';

const bench = fileURLToPath(new URL('../../../bench/bench.js', import.meta.url));

/** Rejects unless it exits 0. */
async function run(...args: readonly string[]): Promise<string> {
  const env = { ...process.env, FLAPD_ETCD: etcdBinary() };
  return (await promisify(execFile)(process.execPath, [bench, ...args], { env })).stdout;
}

describe('npm run bench', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'flapd-bench-test-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('prints one object with a row for each target, and leaves figures, pictures and a page behind', async () => {
    const printed = await run('--quick', '--scale=0.01', '--json', '--out', folder);
    assert.equal(printed.trim().split('\n').length, 1);
    const { rows, curves, date } = JSON.parse(printed) as Result;
    assert.deepEqual(
      rows.map(({ name, target }) => ({ name, target })),
      targets.map(({ name, target }) => ({ name, target })),
    );
    for (const { name, ratio, ok, why } of rows) {
      assert.equal(typeof ok, 'boolean');
      assert.ok(typeof ratio === 'number' || why !== undefined, `${name}: ${ratio}`);
    }
    assert.equal(rows.find(({ name }) => name === 'cold start writes')!.ratio, 0);
    for (const name of ['endpoints', 'latency', 'drain'] as const) assert.ok(curves[name].length > 0, name);

    const kept = readdirSync(folder);
    const data = `${date.slice(0, 10)}.json`;
    for (const file of [data, 'report.html', 'throughput.svg', 'cpu.svg', 'latency.svg', 'drain.svg'])
      assert.ok(kept.includes(file), `${file} is not among ${kept}`);
    assert.deepEqual(JSON.parse(readFileSync(join(folder, data), 'utf8')), JSON.parse(printed));
    const html = readFileSync(join(folder, 'report.html'), 'utf8');
    for (const { name } of targets) assert.ok(html.includes(`<td>${name}</td>`), name);
  });

  it('says how it is used', async () => {
    const usage = await run('--help');
    for (const option of ['--quick', '--json', '--rounds', '--scale', '--out'])
      assert.match(usage, new RegExp(option));
  });

  it('refuses what is no size', async () => {
    await assert.rejects(run('--scale=0'), /--scale is a number/);
    await assert.rejects(run('--rounds=half'), /--rounds is a whole number/);
  });
});
