/** The metrics as text, in the format that is asked for. */
import { Registry } from 'prom-client';

export type ExpositionFormat = 'prometheus' | 'openmetrics';

export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

/**
 * prom-client keeps the format in the registry, and for OpenMetrics takes `_total` from the counters' names for good:
 * the next scrape in the other format would lack it. So one text is made after the other, and names are put back.
 */
export class Exposer {
  readonly #registry: Registry;
  #last: Promise<unknown> = Promise.resolve();

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  render(format: ExpositionFormat): Promise<Exposition> {
    const made = this.#last.then(() => this.#render(format));
    this.#last = made.catch(() => undefined); // whoever asked for it is told
    return made;
  }

  async #render(format: ExpositionFormat): Promise<Exposition> {
    const registry = this.#registry;
    // The registry's type holds the format, and there is one object for both.
    const contentType = (
      format === 'openmetrics' ? Registry.OPENMETRICS_CONTENT_TYPE : Registry.PROMETHEUS_CONTENT_TYPE
    ) as typeof Registry.PROMETHEUS_CONTENT_TYPE;
    registry.setContentType(contentType);
    const metrics = registry.getMetricsAsArray() as unknown as { name: string }[];
    const names = metrics.map(({ name }) => name);
    try {
      return { contentType, body: await registry.metrics() };
    } finally {
      metrics.forEach((metric, i) => {
        metric.name = names[i]!;
      });
    }
  }
}

/** By the Accept header: OpenMetrics where it is named, as Prometheus does. */
export function formatFor(accept: string | undefined): ExpositionFormat {
  return /(^|[,\s])application\/openmetrics-text\b/i.test(accept ?? '') ? 'openmetrics' : 'prometheus';
}
