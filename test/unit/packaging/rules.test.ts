import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { anchors, metricNames, metricsIn, read } from '../../support/documents.js';

interface Rules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string;
      readonly expr: string;
      readonly labels: { readonly severity: string };
      readonly annotations: { readonly summary: string; readonly runbook: string };
    }[];
  }[];
}

interface RuleTests {
  readonly tests: readonly {
    readonly alert_rule_test: readonly {
      readonly alertname: string;
      readonly exp_alerts?: readonly unknown[];
    }[];
  }[];
}

const rules = (parse(read('packaging/flapd.rules.yaml')) as Rules).groups.flatMap((group) => group.rules);
const runbook = read('docs/runbook.md');

describe("Prometheus' rules", () => {
  const metrics = metricNames();
  const tested = (parse(read('packaging/flapd.rules.test.yaml')) as RuleTests).tests.flatMap(
    (test) => test.alert_rule_test,
  );

  for (const { alert, expr, labels, annotations } of rules) {
    it(`${alert} asks for metrics that there are, and has its place in the runbook`, () => {
      for (const metric of metricsIn(expr)) assert.ok(metrics.has(metric), metric);
      assert.ok(['page', 'ticket'].includes(labels.severity), labels.severity);
      const anchor = alert.toLowerCase();
      assert.equal(annotations.runbook, `docs/runbook.md#${anchor}`);
      assert.ok(anchors(runbook).has(anchor), `docs/runbook.md has no heading ${alert}`);
    });

    it(`${alert} is tested both where it fires and where it is silent`, () => {
      const checks = tested.filter(({ alertname }) => alertname === alert);
      assert.ok(
        checks.some(({ exp_alerts }) => exp_alerts !== undefined && exp_alerts.length > 0),
        'fires',
      );
      assert.ok(
        checks.some(({ exp_alerts }) => exp_alerts === undefined),
        'is silent',
      );
    });
  }

  it('are all that the runbook speaks of', () => {
    const told = [...runbook.matchAll(/^### (\w+)$/gm)].map(([, alert]) => alert);
    assert.deepEqual(told.sort(), rules.map(({ alert }) => alert).sort());
  });
});
