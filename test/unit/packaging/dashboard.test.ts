import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { dashboardQueries } from '../../support/dashboard.js';
import { metricNames, metricsIn, read } from '../../support/documents.js';

interface Dashboard {
  readonly panels: readonly {
    readonly id: number;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  }[];
  readonly templating: { readonly list: readonly { readonly name: string }[] };
}

describe("Grafana's dashboard", () => {
  const dashboard = JSON.parse(read('packaging/flapd.dashboard.json')) as Dashboard;
  const metrics = metricNames();
  const queries = dashboardQueries();

  it('asks for metrics that there are', () => {
    assert.ok(queries.length > 0);
    for (const { title, expr } of queries)
      for (const metric of metricsIn(expr)) assert.ok(metrics.has(metric), `${title}: ${metric}`);
  });

  it('shows every metric but the epoch, whose changes the claims are', () => {
    const shown = metricsIn(queries.map(({ expr }) => expr).join('\n'));
    assert.deepEqual(
      [...metrics].filter((metric) => !shown.has(metric)),
      ['flapd_epoch'],
    );
  });

  it('shows the hosts that are chosen, in every panel', () => {
    for (const { title, expr } of queries)
      for (const selector of expr.match(/\{[^}]*\}/g) ?? [])
        assert.match(selector, /job=~"\$job", instance=~"\$instance"/, title);
    assert.deepEqual(
      dashboard.templating.list.map(({ name }) => name),
      ['datasource', 'job', 'instance'],
    );
  });

  it('has no two panels of one number or in one place', () => {
    const ids = dashboard.panels.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
    const taken = new Map<string, string>();
    for (const { title, gridPos } of dashboard.panels)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          assert.ok(x < 24, `${title} is outside of the grid`);
          assert.equal(taken.get(`${x} ${y}`), undefined, `${title} covers another panel`);
          taken.set(`${x} ${y}`, title);
        }
  });
});
