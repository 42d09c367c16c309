/** What the driver of the core tells, as metrics and as lines of the log. */
import type { EndpointRegistry } from '../../endpoints/registry.js';
import { statusName } from '../../endpoints/status.js';
import type { Log } from '../../telemetry/log.js';
import type { Metrics } from '../../telemetry/metrics.js';
import type { DriverEvents } from '../driver.js';
import type { Saying } from './saying.js';

type Told = Pick<DriverEvents, 'committed' | 'txn' | 'retry' | 'deadLetter'>;

export function tellOf(metrics: () => Metrics, registry: EndpointRegistry, log: Log, saying: Saying): Told {
  return {
    committed: ({ seqs, acceptedAtMs, recovered }, nowMs) => {
      const counted = metrics();
      for (let i = 0; i < seqs.length; i++) {
        if (Number.isNaN(seqs[i])) {
          counted.confirmations++;
        } else {
          counted.committed++;
          counted.commitLatency.observe((nowMs - acceptedAtMs[i]!) / 1000);
        }
      }
      if (recovered) counted.recovered++;
      saying.over('etcd');
      saying.over('denied');
    },
    txn: (result, durationMs, waitedMs, ops) => {
      const { txnDuration, rateLimitWait, txnOps } = metrics();
      txnDuration.observe(durationMs / 1000, result);
      rateLimitWait.observe(waitedMs / 1000);
      txnOps.observe(ops);
    },
    retry: (reason, message, delayMs) => {
      metrics().txnRetries.inc({ reason });
      if (reason === 'denied') {
        saying.once(
          'denied',
          { message },
          "etcd denies flapd a permission: its role needs readwrite below flapd's own prefix and the host's status keys (flapd check); everything is kept, trying again every 30 s",
        );
      } else {
        saying.once(
          'etcd',
          { reason, message, delayMs },
          'etcd does not take what is written; everything is kept and sent again',
        );
      }
    },
    deadLetter: (endpoint, status, reason) => {
      metrics().deadLetters.inc();
      log.error(
        { key: registry.key(endpoint), status: statusName(status), reason },
        'etcd will never take this transition: it is set aside',
      );
    },
  };
}
