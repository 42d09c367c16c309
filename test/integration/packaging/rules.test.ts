/** What Prometheus itself says of the rules and of the dashboard's queries. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { stringify } from 'yaml';
import { dashboardQueries } from '../../support/dashboard.js';
import { read, root } from '../../support/documents.js';

let promtool: string;
let folder: string;

before(() => {
  promtool = execFileSync(`${root}scripts/promtool`, { encoding: 'utf8' }).trim();
  folder = mkdtempSync(join(tmpdir(), 'flapd-promtool-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

function run(...args: readonly string[]): { code: number | null; said: string } {
  const { status, stdout, stderr } = spawnSync(promtool, args, { cwd: folder, encoding: 'utf8' });
  return { code: status, said: stdout + stderr };
}

/** The rules and their tests in a folder of their own, the rules perhaps changed. */
function testRules(change: (rules: string) => string = (rules) => rules): {
  code: number | null;
  said: string;
} {
  writeFileSync(join(folder, 'flapd.rules.yaml'), change(read('packaging/flapd.rules.yaml')));
  writeFileSync(join(folder, 'flapd.rules.test.yaml'), read('packaging/flapd.rules.test.yaml'));
  return run('test', 'rules', 'flapd.rules.test.yaml');
}

describe("Prometheus' rules", () => {
  it('do what their tests say', () => {
    const { code, said } = testRules();
    assert.equal(code, 0, said);
  });

  it('have tests that notice where one of them is wrong', () => {
    const { code, said } = testRules((rules) =>
      rules.replace('expr: flapd_etcd_up == 0', 'expr: flapd_etcd_up == 1'),
    );
    assert.notEqual(code, 0, said);
    assert.match(said, /FlapdEtcdDown/);
  });
});

describe("Grafana's dashboard", () => {
  it('asks what Prometheus understands', () => {
    const rules = dashboardQueries().map(({ expr }, i) => ({
      record: `query_${i}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll(/\$\w+/g, '.*'),
    }));
    writeFileSync(join(folder, 'queries.yaml'), stringify({ groups: [{ name: 'dashboard', rules }] }));
    const { code, said } = run('check', 'rules', 'queries.yaml');
    assert.equal(code, 0, said);
    assert.match(said, new RegExp(`${rules.length} rules found`));
  });
});
