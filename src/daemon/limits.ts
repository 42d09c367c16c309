/** What the settings say of the core's limits, those that may change while it runs. */
import type { SettingValues } from '../config/settings.js';
import type { ReporterLimits } from '../reporter/reporter.js';

export function limitsOf(settings: SettingValues): ReporterLimits {
  return {
    txn: {
      maxOps: settings['txn.maxOps'],
      bytesMax: settings['txn.bytesMax'],
      watchBytesMax: settings['txn.watchBytesMax'],
    },
    limits: { txnsPerSecond: settings['limits.txnsPerSecond'], burst: settings['limits.burst'] },
    schedule: {
      endpointDelayMs: settings['limits.endpointDelay'],
      endpointCatchUpMs: settings['limits.endpointCatchUp'],
      confirm: settings['reader.confirm'],
      confirmAfterMs: settings['reader.confirmAfter'],
      confirmAfterOutageMs: settings['reader.confirmAfterOutage'],
    },
  };
}
