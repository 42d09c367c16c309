/** What the sources see, on its way into the core: a number for each id, the limits of what is taken, and the counts. */
import type { EndpointId, EndpointIndex } from '../../endpoints/id.js';
import { InvalidIdError } from '../../endpoints/key.js';
import type { EndpointRegistry } from '../../endpoints/registry.js';
import { type Source, type Status, sourceName, statusName } from '../../endpoints/status.js';
import type { Log } from '../../telemetry/log.js';
import type { Driver } from '../driver.js';
import type { Saying } from '../operate/saying.js';

export interface IntakeOptions {
  readonly driver: Driver;
  readonly registry: EndpointRegistry;
  readonly endpointsMax: number;
  readonly log: Log;
  readonly saying: Saying;
}

export class Intake {
  readonly ignored = { unchanged: 0, queue_full: 0, too_many_endpoints: 0 };
  readonly #options: IntakeOptions;
  /** By source and status. */
  readonly #accepted = new Float64Array(4 * 4);

  constructor(options: IntakeOptions) {
    this.#options = options;
  }

  /** By the labels of the metric: source and status with a space between. */
  get accepted(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    this.#accepted.forEach((count, i) => {
      if (count > 0) counts.set(`${sourceName((i >> 2) as Source)} ${statusName((i & 3) as Status)}`, count);
    });
    return counts;
  }

  /** The core has taken a transition. */
  count(source: Source, status: Status): void {
    this.#accepted[source * 4 + status]!++;
  }

  /**
   * The seq after which all that was handed over so far is accepted, once it is durable. 0 where this life has accepted
   * nothing yet: what the ones before it had is in the journal for good, and who says it again must not wait for more.
   */
  get seq(): number {
    const { lastSeq, firstSeq } = this.#options.driver.reporter.queues;
    return lastSeq < firstSeq ? 0 : lastSeq;
  }

  /** Throws an InvalidIdError for an id that no key can hold, and where there are too many. */
  intern(id: EndpointId): EndpointIndex {
    const { registry, endpointsMax } = this.#options;
    const known = registry.find(id);
    if (known !== undefined) return known;
    if (registry.size >= endpointsMax) {
      this.ignored.too_many_endpoints++;
      throw new InvalidIdError(
        `there are ${endpointsMax} endpoints already, and no more are taken (endpoints.max)`,
      );
    }
    return registry.intern(id);
  }

  observe(endpoint: EndpointIndex, status: Status, source: Source, atUs: number): void {
    const { driver, saying } = this.#options;
    const observed = driver.observe(endpoint, status, source, atUs);
    if (observed === 'accepted') return;
    if (observed === 'unchanged') {
      this.ignored.unchanged++;
      return;
    }
    this.ignored.queue_full++;
    saying.once(
      'queue',
      { pending: driver.reporter.queues.pending },
      'the queues are full: from now on only final states are reported, until there is room',
    );
  }

  /** The same by id, of a source that cannot be told that its endpoint is left out. */
  observeId(id: EndpointId, status: Status, source: Source, atUs: number): void {
    try {
      this.observe(this.intern(id), status, source, atUs);
    } catch (error) {
      if (!(error instanceof InvalidIdError)) throw error;
      this.#options.log.warn({ id, why: error.message }, 'an endpoint that no key can hold is left out');
    }
  }
}
