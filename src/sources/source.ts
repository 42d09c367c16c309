/**
 * A source turns the outside (kernel, dataplane, datastore) into observations.
 * It runs on the main thread and hands them over synchronously, in the order in which it saw them.
 */
import type { EndpointId, EndpointIndex } from '../endpoints/id.js';
import type { SourceName, Status } from '../endpoints/status.js';

/** What a source that knows statuses outright (the feed) hands its observations to; the daemon implements it. */
export interface ObservationSink {
  /** The number of an endpoint; the same id gives the same number. Throws an InvalidIdError for an id that no key can hold. */
  intern(id: EndpointId): EndpointIndex;
  /**
   * One observation. `observedAtUs` is Unix time in microseconds.
   * Returns the seq after which the observation counts as accepted once it is durable (the last one for an ignored one).
   */
  observe(endpoint: EndpointIndex, status: Status, observedAtUs: number): number;
}

export interface EndpointSource {
  readonly name: SourceName;
  start(): Promise<void>;
  /** Stops reading; what was handed over stays. */
  stop(): Promise<void>;
  /** Whether everything that existed when the source started has been handed over. */
  readonly inSync: boolean;
}
