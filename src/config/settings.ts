/**
 * Every setting, in one table: what it is called, what it may be, what it is without being set. What Felix calls it is
 * in felix.ts.
 * The Settings that the rest of flapd works with are made of it once, at the door, and frozen.
 */
import { hostname } from 'node:os';
import type { z } from 'zod';
import { hostProblem, regionProblem } from '../endpoints/key.js';
import {
  duration,
  flag,
  httpAddress,
  named,
  oneOf,
  optional,
  optionalRegex,
  regex,
  size,
  urls,
  whole,
} from './values.js';

interface Definition<T> {
  readonly kind: z.ZodType<T>;
  readonly standard: () => T;
  readonly about: string;
  /** Takes effect on SIGHUP. */
  readonly reload?: boolean;
  /** What the standard is, where it depends on the machine. */
  readonly standardText?: string;
}

function define<T>(
  kind: z.ZodType<T>,
  standard: T | (() => T),
  about: string,
  extra: Pick<Definition<T>, 'reload' | 'standardText'> = {},
): Definition<T> {
  return {
    kind,
    standard: typeof standard === 'function' ? (standard as () => T) : () => standard,
    about,
    ...extra,
  };
}

const minute = 60_000;
const day = 24 * 60 * minute;
const mebi = 2 ** 20;

const path = (what: string): z.ZodType<string | null> => optional(`the path of ${what}`);

/** By the name that people use, in files and with `--set`; in the environment it is FLAPD_ and the name in capitals. */
export const definitions = {
  host: define(
    named('a host name', hostProblem),
    () => hostname().toLowerCase(),
    'The name of this host in the keys. It must be the one that Felix and Neutron use.',
    { standardText: "the machine's host name, in lower case" },
  ),
  region: define(
    optional('the name of a region', regionProblem),
    null as string | null,
    'The OpenStack region; none where there is none.',
  ),
  'etcd.endpoints': define(urls, ['http://127.0.0.1:2379'] as readonly string[], 'Where etcd is.', {
    reload: true,
  }),
  'etcd.caFile': define(
    path('a file'),
    null as string | null,
    'PEM file of the certificate authorities that vouch for etcd.',
    { reload: true },
  ),
  'etcd.certFile': define(path('a file'), null as string | null, "PEM file of flapd's own certificate.", {
    reload: true,
  }),
  'etcd.keyFile': define(path('a file'), null as string | null, 'PEM file of its key.', { reload: true }),
  'etcd.user': define(
    optional('the name of a user'),
    null as string | null,
    'User for etcd, where it wants a password rather than a certificate.',
    { reload: true },
  ),
  'etcd.passwordFile': define(path('a file'), null as string | null, 'File with the password of that user.', {
    reload: true,
  }),
  'etcd.deadline': define(duration(50, minute), 2000, 'The longest that one call to etcd may take.', {
    reload: true,
  }),
  'etcd.embeddedDir': define(
    path('a directory'),
    null as string | null,
    'Start an etcd of its own that keeps its data here; for one machine alone.',
  ),
  'etcd.embeddedPort': define(
    whole(0, 65_535),
    2379,
    'Port of that etcd on the loopback; 0 takes any free one.',
  ),
  'endpoints.from': define(
    oneOf('calico', 'felix', 'interfaces', 'feed'),
    'calico' as 'calico' | 'felix' | 'interfaces' | 'feed',
    "Where endpoints are known from: Calico's resources in etcd, what Felix tells its dataplane (flapd felix-driver), the interfaces alone, or only what is fed through the socket.",
  ),
  'endpoints.interfaces': define(
    regex,
    /^(tap|cali|veth)/,
    'With endpoints.from=interfaces: each interface whose name matches is an endpoint.',
  ),
  'endpoints.interfaceExclude': define(optionalRegex, null as RegExp | null, '... unless it matches this.'),
  'endpoints.max': define(whole(1, 1_000_000), 20_000, 'More endpoints than this are refused.'),
  'netlink.receiveBuffer': define(
    size(4096, 1024 * mebi),
    64 * mebi,
    'Socket buffer for the news of interfaces; net.core.rmem_max limits it.',
  ),
  'netlink.carrierCounters': define(
    flag,
    true,
    "Recover flaps that the kernel merges from the interfaces' carrier counters.",
  ),
  'feed.socket': define(
    path('a socket'),
    '/run/flapd/feed.sock' as string | null,
    'Unix socket for a dataplane to report to; off for none.',
  ),
  'feed.group': define(
    optional('the name of a group'),
    null as string | null,
    'Group that may connect to it, besides root.',
  ),
  'feed.frameMax': define(size(64, 16 * mebi), 64 * 1024, 'The longest frame that is taken.'),
  'feed.connectionsMax': define(whole(1, 1024), 16, 'Connections at a time.'),
  'feed.frameTimeout': define(
    duration(100, 10 * minute),
    10_000,
    'A frame that has begun must have ended after this.',
  ),
  'driver.socket': define(
    path('a socket'),
    '/run/flapd/driver.sock' as string | null,
    'Unix socket for flapd felix-driver to report to, with endpoints.from=calico or felix; off for none.',
  ),
  'admin.socket': define(
    path('a socket'),
    '/run/flapd/admin.sock' as string | null,
    'Unix socket for flapd status, endpoints and loglevel; off for none.',
  ),
  lanes: define(whole(1, 64), 4, 'Transactions under way at a time: each lane has one.'),
  workers: define(whole(0, 16), 0, 'Worker threads; 0: one for each core but one, four at most.'),
  'txn.maxOps': define(
    whole(2, 10_000),
    128,
    "Operations of a transaction: not above etcd's --max-txn-ops.",
    { reload: true },
  ),
  'txn.bytesMax': define(
    size(1024, 16 * mebi),
    mebi,
    "Bytes of a transaction: below etcd's --max-request-bytes.",
    { reload: true },
  ),
  'txn.watchBytesMax': define(
    whole(0, 16 * mebi),
    2000,
    "Bytes of the answer by which etcd's gateway tells a watcher of one transaction: Neutron's client etcd3gw up to 2.4.0 is blind for 13 s after one above 2,048. 0: no limit.",
    { reload: true },
  ),
  'limits.txnsPerSecond': define(whole(0, 100_000), 50, 'Transactions a second of this host; 0: no limit.', {
    reload: true,
  }),
  'limits.burst': define(whole(1, 1_000_000), 100, 'Transactions that may go at once after a quiet time.', {
    reload: true,
  }),
  'limits.endpointDelay': define(
    duration(0, minute),
    1000,
    'Two transitions of one endpoint are this far apart, for readers that keep only the latest; 0: no spacing.',
    { reload: true },
  ),
  'limits.endpointCatchUp': define(
    duration(0, 10 * minute),
    10_000,
    "... but an endpoint's backlog is written within about this.",
    { reload: true },
  ),
  'reader.confirm': define(flag, true, 'Put a final value once more where its reader may have missed it.', {
    reload: true,
  }),
  'reader.confirmAfter': define(duration(0, 10 * minute), 2000, 'So long after the last transition.', {
    reload: true,
  }),
  'reader.confirmAfterOutage': define(
    duration(0, 10 * minute),
    15_000,
    'So long after the last transition, where etcd was away.',
    { reload: true },
  ),
  'queue.maxPending': define(
    whole(1, 50_000_000),
    5_000_000,
    'Pending transitions held in memory; beyond it only final states are reported, and an alarm.',
  ),
  'journal.dir': define(
    path('a directory'),
    '/var/lib/flapd/journal' as string | null,
    'Directory of the journal; none keeps pending transitions in memory alone.',
  ),
  'journal.sync': define(
    oneOf('always', 'interval', 'never'),
    'always' as 'always' | 'interval' | 'never',
    'When the journal is forced to disk: before a transition counts as accepted, every journal.syncInterval, or when the kernel sees fit.',
  ),
  'journal.syncInterval': define(duration(1, minute), 100, 'With journal.sync=interval.'),
  'journal.retain': define(
    size(0, 1024 * 1024 * mebi),
    64 * mebi,
    'Committed transitions kept for `flapd history`.',
  ),
  'journal.maxSize': define(
    size(mebi, 1024 * 1024 * mebi),
    1024 * mebi,
    'Where the journal is larger, sources that can wait are not read.',
  ),
  'resync.interval': define(
    duration(1000, day),
    90_000,
    "How often etcd's keys are compared with the known states, give or take a tenth.",
    { reload: true },
  ),
  'reporting.processStatus': define(
    flag,
    true,
    'Write the keys by which Neutron sees that the agent lives; off where Felix still does.',
    { reload: true },
  ),
  'reporting.interval': define(duration(0, day), 30_000, 'How often they are written; 0: never.', {
    reload: true,
  }),
  'reporting.ttl': define(duration(1000, day), 90_000, 'They are gone this long after the last time.', {
    reload: true,
  }),
  'shutdown.drain': define(duration(0, 10 * minute), 10_000, 'How long SIGTERM waits for what is pending.', {
    reload: true,
  }),
  http: define(
    httpAddress,
    { host: '127.0.0.1', port: 9889 } as { readonly host: string; readonly port: number } | null,
    'Where metrics and health are served; off for nowhere.',
  ),
  httpRequired: define(flag, false, 'Do not run without it.'),
  'log.level': define(
    oneOf('trace', 'debug', 'info', 'warn', 'error'),
    'info' as 'trace' | 'debug' | 'info' | 'warn' | 'error',
    'What is logged.',
    {
      reload: true,
    },
  ),
  'log.format': define(
    oneOf('auto', 'json', 'pretty'),
    'auto' as 'auto' | 'json' | 'pretty',
    'How: auto is pretty on a terminal.',
  ),
} as const;

export type SettingName = keyof typeof definitions;
type Value<N extends SettingName> = (typeof definitions)[N] extends Definition<infer T> ? T : never;
export type SettingValues = { readonly [N in SettingName]: Value<N> };

/** What flapd works with. Durations are milliseconds, sizes are bytes. */
export interface Settings {
  readonly values: SettingValues;
  /** Where each value that is not the standard one comes from. */
  readonly sources: ReadonlyMap<SettingName, string>;
  /** Felix's settings that mean nothing to flapd: where each was found. */
  readonly ignored: readonly string[];
}

export function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(definitions, name);
}

export const settingNames = Object.keys(definitions) as SettingName[];
