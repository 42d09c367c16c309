/**
 * From the claim on: what etcd has is found out before the first transaction, and the claim is watched, since a flapd
 * that has nothing to write would not notice that it was taken over.
 */
import { claimKey } from '../../endpoints/key.js';
import type { EndpointRegistry } from '../../endpoints/registry.js';
import { watchClaim } from '../../etcd/claim.js';
import { jitteredMs } from '../../reporter/backoff.js';
import type { Log } from '../../telemetry/log.js';
import type { Driver } from '../driver.js';
import type { Saying } from '../operate/saying.js';
import type { EtcdAccess } from './access.js';
import { listStatuses } from './statuses.js';

export interface TenureOptions {
  readonly driver: Driver;
  readonly registry: EndpointRegistry;
  readonly etcd: EtcdAccess;
  readonly log: Log;
  readonly saying: Saying;
}

const againMs = 500;

export class Tenure {
  readonly #options: TenureOptions;
  readonly #ending = new AbortController();
  #watched = false;
  #seeding: Promise<void> | null = null;

  constructor(options: TenureOptions) {
    this.#options = options;
  }

  /** The claim was taken, at this revision. Resolves when what etcd has is known to the core. */
  begin(revision: number): Promise<void> {
    this.#watch(revision + 1);
    if (this.#options.driver.reporter.state !== 'seeding') return Promise.resolve();
    this.#seeding ??= this.#seed().finally(() => {
      this.#seeding = null;
    });
    return this.#seeding;
  }

  end(): void {
    this.#ending.abort();
  }

  /** Until etcd's keys are known nothing is sent, so it is tried until it works, or is known never to. */
  async #seed(): Promise<void> {
    const { driver, registry, etcd, log, saying } = this.#options;
    while (!this.#ending.signal.aborted && driver.reporter.state === 'seeding') {
      try {
        const { statuses } = await listStatuses(etcd.client, registry);
        driver.seed(statuses);
      } catch (error) {
        if (/permission denied/.test(String(error))) {
          log.warn(
            { error: String(error) },
            'the role may not read the status keys: statuses that etcd has already are written again, and no resync is made',
          );
          driver.seed(null);
        } else {
          saying.once(
            'list',
            { error: String(error) },
            "etcd's status keys could not be read yet; trying again",
          );
          await new Promise((resolve) => setTimeout(resolve, jitteredMs(againMs, Math.random())));
        }
      }
    }
    saying.over('list');
  }

  /** The watch is a hint to ask. */
  #watch(fromRevision: number): void {
    if (this.#watched) return;
    this.#watched = true;
    const { driver, registry, etcd } = this.#options;
    let lost = false;
    void watchClaim(() => etcd.connection, claimKey(registry.where), {
      fromRevision,
      onChange: (claim) => {
        if (claim === null || claim.epoch !== driver.reporter.epoch) driver.probe();
      },
      // A flapd that has nothing to write would not notice either that etcd was away, and its readers blind.
      onFailure: ({ kind }) => {
        if (kind === 'unclear' && !lost) driver.away();
        lost = true;
      },
      onConnected: () => {
        if (lost) driver.probe();
        lost = false;
      },
      signal: this.#ending.signal,
    });
  }
}
