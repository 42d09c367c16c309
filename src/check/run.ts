/** All checks, in the order in which their findings are told. */
import type { Settings, SettingValues } from '../config/settings.js';
import type { EtcdConnection } from '../etcd/connection.js';
import { judgeConfiguration } from './configuration.js';
import { checkEtcd } from './etcd/etcd.js';
import type { FelixValue } from './felix.js';
import { type Finding, fine } from './finding.js';
import { checkHttp } from './local/http.js';
import { checkJournal } from './local/journal.js';
import { judgeNetlink, lookAtNetlink } from './local/netlink.js';
import { checkSockets } from './local/sockets.js';
import { checkTls } from './tls/tls.js';

export interface CheckOptions {
  readonly settings: Settings;
  readonly connection: EtcdConnection;
  /** Felix's EndpointReportingEnabled in its environment or its file; null: in neither. */
  readonly felixReporting: FelixValue | null;
  /** How long the status keys are watched for foreign writes. */
  readonly watchMs: number;
  /** Tell each setting that is set, and where. */
  readonly withSources: boolean;
}

const netlinkDeadlineMs = 10_000;

export async function runChecks(options: CheckOptions): Promise<Finding[]> {
  const { values } = options.settings;
  const [etcd, local] = await Promise.all([checkRemote(options), checkLocal(values)]);
  return [...judgeConfiguration(options.settings, options.withSources), ...etcd, ...local];
}

async function checkRemote({
  settings,
  connection,
  felixReporting,
  watchMs,
}: CheckOptions): Promise<Finding[]> {
  const { values } = settings;
  if (values['etcd.embeddedDir'] !== null)
    return [fine('etcd', `flapd starts one of its own, with its data in ${values['etcd.embeddedDir']}`)];
  return [
    ...(await checkTls(connection)),
    ...(await checkEtcd({ values, connection, felixReporting, watchMs })),
  ];
}

async function checkLocal(values: SettingValues): Promise<Finding[]> {
  const journal = checkJournal({ directory: values['journal.dir'], bytesMax: values['journal.maxSize'] });
  const http = await checkHttp(values.http);
  const sockets = await checkSockets(
    (['feed.socket', 'driver.socket', 'admin.socket'] as const).flatMap((setting) => {
      const path = values[setting];
      return path === null ? [] : [{ setting, path }];
    }),
    values['feed.group'],
    journal.running || http.running,
  );
  return [...(await checkNetlink(values)), ...journal.findings, ...sockets, ...http.findings];
}

async function checkNetlink(values: SettingValues): Promise<Finding[]> {
  if (values['endpoints.from'] === 'feed') return [];
  const wanted = {
    receiveBufferBytes: values['netlink.receiveBuffer'],
    carrierCounters: values['netlink.carrierCounters'],
  };
  return judgeNetlink(await lookAtNetlink(wanted, netlinkDeadlineMs), wanted);
}
