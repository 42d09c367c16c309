import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { ExitCode } from '../../../src/daemon/exit.js';

const read = (path: string): string => readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8');

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string;
      readonly expr: string;
      readonly annotations: { readonly summary: string; readonly runbook: string };
    }[];
  }[];
}

describe("Prometheus' rules", () => {
  const { rules } = (parse(read('packaging/flapd.rules.yaml')) as Rules).groups[0]!;
  const metrics = new Set(read('docs/reference/metrics.md').match(/flapd_[a-z_]+/g));
  const runbook = read('docs/runbook.md');

  for (const { alert, expr, annotations } of rules) {
    it(`${alert} asks for metrics that there are, and has its place in the runbook`, () => {
      for (const metric of expr.match(/flapd_[a-z_]+/g) ?? []) assert.ok(metrics.has(metric), metric);
      assert.match(runbook, new RegExp(`^### ${alert}$`, 'm'));
      assert.equal(annotations.runbook, `docs/runbook.md#${alert.toLowerCase()}`);
    });
  }

  it('are all that the runbook speaks of', () => {
    const told = [...runbook.matchAll(/^### (\w+)$/gm)].map(([, alert]) => alert);
    assert.deepEqual(told.sort(), rules.map(({ alert }) => alert).sort());
  });

  it('the runbook has each exit code but that of a failed check', () => {
    const told = [...runbook.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    const known = Object.values(ExitCode).filter((code) => code !== ExitCode.failed && code < 100);
    assert.deepEqual(
      told,
      known.sort((a, b) => a - b),
    );
  });
});

describe("systemd's unit", () => {
  const unit = read('packaging/flapd.service');
  const values = (name: string): string[] =>
    [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value!);

  it('does not start again where that cannot help or would fight over a host', () => {
    const never = values('RestartPreventExitStatus')[0]!.split(' ').map(Number);
    assert.deepEqual(never, [ExitCode.usage, ExitCode.journalDamaged, ExitCode.denied, ExitCode.config]);
    assert.deepEqual(values('SuccessExitStatus'), [String(ExitCode.backlog)]);
  });

  it('gives flapd no privilege, no other user, no core, and leaves V8 its own way', () => {
    assert.deepEqual(values('User'), ['flapd']);
    assert.deepEqual(values('CapabilityBoundingSet'), ['']);
    assert.deepEqual(values('NoNewPrivileges'), ['yes']);
    assert.deepEqual(values('LimitCORE'), ['0']);
    assert.deepEqual(values('MemoryDenyWriteExecute'), ['no']);
    assert.deepEqual(values('UMask'), ['0077']);
    assert.ok(values('RestrictAddressFamilies')[0]!.split(' ').includes('AF_NETLINK'));
  });

  it('waits longer for the end than flapd drains, and reloads by SIGHUP', () => {
    assert.ok(Number(values('TimeoutStopSec')[0]) > 10);
    assert.match(values('ExecReload')[0]!, /-HUP \$MAINPID$/);
  });
});

describe('the buffer that sysctl grants', () => {
  it('is the one that flapd asks for', () => {
    const granted = Number(/^net\.core\.rmem_max = (\d+)$/m.exec(read('packaging/60-flapd.conf'))![1]);
    const asked = /`netlink\.receiveBuffer`.*?`(\d+)MiB`/.exec(read('docs/reference/settings.md'));
    assert.equal(granted, Number(asked![1]) * 2 ** 20);
  });
});
