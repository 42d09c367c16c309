/** The settings that the flapd under test gets. None of this machine's own configuration is meant for it. */
import { definitions, type SettingName } from '../../config/settings.js';
import type { EtcdConnection } from '../../etcd/connection.js';
import { watchedInterfaces } from '../drive/netlink.js';

export interface SubjectOptions {
  readonly via: 'feed' | 'netlink';
  readonly host: string;
  readonly connection: EtcdConnection;
  readonly socketPath: string;
  readonly journalDir: string;
  readonly endpoints: number;
  readonly production: boolean;
  /** The user's own, which win. */
  readonly overrides: ReadonlyMap<SettingName, string>;
}

/**
 * The settings by name, as `--set` takes them. Without `production` everything that holds writes back is off: limits,
 * spacing, confirming writes, and the batch limit for Neutron's reader.
 */
export function subjectSettings(options: SubjectOptions): ReadonlyMap<SettingName, string> {
  const { connection } = options;
  const settings = new Map<SettingName, string>([
    ['host', options.host],
    ['region', 'none'],
    ['etcd.endpoints', connection.endpoints.join(',')],
    ['etcd.caFile', connection.caFile ?? 'none'],
    ['etcd.certFile', connection.certFile ?? 'none'],
    ['etcd.keyFile', connection.keyFile ?? 'none'],
    ['etcd.user', connection.user ?? 'none'],
    ['etcd.passwordFile', connection.passwordFile ?? 'none'],
    ['journal.dir', options.journalDir],
    // It would make an agent of the storm's host in a Neutron that watches.
    ['reporting.processStatus', 'false'],
    ['http', 'off'],
    ['admin.socket', 'off'],
    ['driver.socket', 'off'],
    // Felix's file may set it, and a storm is about flapd's own standard.
    ['limits.endpointDelay', `${definitions['limits.endpointDelay'].standard()}ms`],
    ['endpoints.max', String(Math.max(options.endpoints, definitions['endpoints.max'].standard()))],
  ]);
  if (options.via === 'feed') {
    settings.set('feed.socket', options.socketPath);
    settings.set('endpoints.from', 'feed');
  } else {
    settings.set('feed.socket', 'none');
    settings.set('endpoints.from', 'interfaces');
    settings.set('endpoints.interfaces', watchedInterfaces);
    settings.set('endpoints.interfaceExclude', '');
  }
  if (!options.production) {
    settings.set('limits.txnsPerSecond', '0');
    settings.set('limits.endpointDelay', '0');
    settings.set('reader.confirm', 'false');
    settings.set('txn.watchBytesMax', '0');
  }
  for (const [name, value] of options.overrides) settings.set(name, value);
  return settings;
}

/** A duration among them, in milliseconds: what was set, or flapd's standard. */
export function durationOf(
  settings: ReadonlyMap<SettingName, string>,
  name:
    | 'limits.endpointDelay'
    | 'limits.endpointCatchUp'
    | 'reader.confirmAfter'
    | 'reader.confirmAfterOutage',
): number {
  const text = settings.get(name);
  return text === undefined ? definitions[name].standard() : definitions[name].kind.parse(text);
}

/** Whether one of them is on: as it was set, or as it is without. */
export function isOn(settings: ReadonlyMap<SettingName, string>, name: 'reader.confirm'): boolean {
  const text = settings.get(name);
  return text === undefined ? definitions[name].standard() : definitions[name].kind.parse(text);
}

/** flapd's own variables and Felix's would be read by it. What asks for faults stays, and node's own. */
export function subjectEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([name]) => name === 'FLAPD_FAULTS' || !/^(FLAPD|FELIX)_/i.test(name)),
  );
}
