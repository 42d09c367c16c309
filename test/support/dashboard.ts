/** What Grafana's dashboard asks of Prometheus. */
import { read } from './documents.js';

export interface DashboardQuery {
  /** Of its panel. */
  readonly title: string;
  readonly expr: string;
}

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

export function dashboardQueries(): DashboardQuery[] {
  const { panels } = JSON.parse(read('packaging/flapd.dashboard.json')) as Dashboard;
  return panels.flatMap(({ title, targets }) => (targets ?? []).map(({ expr }) => ({ title, expr })));
}
