/**
 * Everything that `flapd check` can find wrong, in one table: docs/check.md is made of it, and a test holds the two
 * together. A problem keeps flapd from doing its work (exit code 1); a warning will, some day, or for somebody.
 */
export type Level = 'warning' | 'problem';

export type CheckName =
  | 'configuration'
  | 'tls'
  | 'etcd'
  | 'permissions'
  | 'claim'
  | 'other writers'
  | 'netlink'
  | 'journal'
  | 'sockets'
  | 'http';

export interface CatalogueEntry {
  readonly check: CheckName;
  readonly level: Level;
  /** The set-up that is broken. */
  readonly broken: string;
  /** What it says, in short; the real words name file, key, address. */
  readonly says: string;
  readonly wayOut: string;
}

const entry = (
  check: CheckName,
  level: Level,
  broken: string,
  says: string,
  wayOut: string,
): CatalogueEntry => ({ check, level, broken, says, wayOut });

const entries = {
  'plain-http': entry(
    'configuration',
    'warning',
    'etcd is reached by `http://` over a network',
    'passwords and statuses go over the network unprotected',
    'serve etcd by TLS; `https://` in `etcd.endpoints`, its CA in `etcd.caFile`',
  ),
  'tls-file': entry(
    'tls',
    'problem',
    'a certificate, key or password file is missing, unreadable, or no PEM',
    'which file, and why',
    'correct the path; `chown`/`chmod` so that flapd may read it',
  ),
  'tls-pair': entry(
    'tls',
    'problem',
    "the key is not the certificate's",
    'both files',
    'name the key that the certificate was made with',
  ),
  'tls-expired': entry(
    'tls',
    'problem',
    'a certificate has expired: the CA, our own, or that of etcd',
    'whose, and since when',
    'have it issued anew; flapd takes the new file without a restart',
  ),
  'tls-not-yet-valid': entry(
    'tls',
    'problem',
    'a certificate is not valid yet',
    'whose, and from when on',
    "set this machine's clock right (chrony), or wait",
  ),
  'tls-expires-soon': entry(
    'tls',
    'warning',
    'a certificate expires within 14 days',
    'whose, and when',
    'have it issued anew',
  ),
  'tls-authority': entry(
    'tls',
    'problem',
    'the CA does not vouch for etcd (wrong CA file)',
    'the endpoint, and who issued its certificate',
    "name the CA that issued etcd's certificate in `etcd.caFile`",
  ),
  'tls-name': entry(
    'tls',
    'problem',
    "etcd's certificate is made for another name",
    'the name asked for, and those in the certificate',
    'use one of those names in `etcd.endpoints`, or have the certificate issued with this one',
  ),
  'tls-refused': entry(
    'tls',
    'problem',
    'etcd does not take our certificate, or wants one and has got none',
    'the endpoint, and what it said',
    '`etcd.certFile` and `etcd.keyFile` of the CA that etcd trusts (its `--trusted-ca-file`)',
  ),
  'etcd-unreachable': entry(
    'etcd',
    'problem',
    'etcd is down, or cannot be reached from here',
    'each endpoint, and how it failed',
    'start etcd; correct `etcd.endpoints`; see to firewall and routes',
  ),
  'etcd-member-unreachable': entry(
    'etcd',
    'warning',
    'one of several endpoints cannot be reached',
    'which one, and how it failed',
    'the same; flapd uses the others meanwhile',
  ),
  'etcd-authentication': entry(
    'etcd',
    'problem',
    'wrong user or password, or none where etcd wants one',
    'what etcd said',
    'the right user in `etcd.user`, its password in `etcd.passwordFile`; `etcdctl user passwd USER`',
  ),
  'etcd-no-leader': entry(
    'etcd',
    'problem',
    'the etcd cluster has lost its majority',
    'the endpoints that know no leader',
    'start the missing members: `etcdctl endpoint status --cluster`',
  ),
  'etcd-no-space': entry(
    'etcd',
    'problem',
    'etcd is full (alarm NOSPACE)',
    'that etcd takes no writes',
    '`etcdctl compact`, `etcdctl defrag`, `etcdctl alarm disarm`',
  ),
  'etcd-corrupt': entry(
    'etcd',
    'problem',
    'the members of etcd differ (alarm CORRUPT)',
    'that etcd takes no writes',
    "replace the damaged member, as etcd's guide for data corruption says",
  ),
  'etcd-clusters-differ': entry(
    'etcd',
    'problem',
    'the endpoints belong to different clusters',
    'which belong together',
    'name the members of one cluster in `etcd.endpoints`',
  ),
  'etcd-version': entry(
    'etcd',
    'warning',
    'a version of etcd with known faults',
    'the version, and each fault',
    'upgrade to the patch release named',
  ),
  'etcd-unknown': entry(
    'etcd',
    'warning',
    'etcd answers in a way that leaves a check undone',
    'what could not be looked at, and why',
    'see to the other findings, and check again',
  ),
  'etcd-permission': entry(
    'permissions',
    'problem',
    'the role lacks a right that flapd needs',
    'the range of keys, the right, and what flapd does with it',
    'the `etcdctl role grant-permission` that grants it; `flapd check --print-role` prints all of them',
  ),
  'claim-other-machine': entry(
    'claim',
    'problem',
    'another machine has this host name, and its flapd holds the claim',
    'both machines, and since when',
    'give one of them another name; where the other one is gone for good: `flapd claim --take`',
  ),
  'claim-unreadable': entry(
    'claim',
    'problem',
    'the claim holds something that is no claim',
    'the key',
    'look at it with `etcdctl get`; `flapd claim --take` overwrites it',
  ),
  'felix-reports': entry(
    'other writers',
    'problem',
    "Felix's own endpoint reporting is on for this host",
    'where it is switched on',
    '`EndpointReportingEnabled = false` in felix.cfg (or `FELIX_ENDPOINTREPORTINGENABLED=false` in its environment), and restart Felix',
  ),
  'felix-setting': entry(
    'other writers',
    'warning',
    'Felix would not understand its `EndpointReportingEnabled`',
    'the value, and where it is',
    '`true` or `false`',
  ),
  'foreign-writes': entry(
    'other writers',
    'problem',
    "somebody else writes this host's status keys",
    'which keys, how often, within the seconds watched',
    "switch Felix's endpoint reporting off; end a second reporter with this host name",
  ),
  'netlink-buffer': entry(
    'netlink',
    'warning',
    '`net.core.rmem_max` is too small',
    'the buffer asked for, and the one granted',
    '`sysctl -w net.core.rmem_max=BYTES`, and the same in `/etc/sysctl.d/`',
  ),
  'netlink-failed': entry(
    'netlink',
    'problem',
    'the kernel gives no news of interfaces',
    'what it said',
    'a seccomp or systemd filter (`RestrictAddressFamilies=`) must allow AF_NETLINK',
  ),
  'netlink-counters': entry(
    'netlink',
    'warning',
    'the kernel has no carrier counters (before Linux 4.16)',
    'that merged flaps cannot be recovered',
    'a newer kernel; `netlink.carrierCounters: false` to do without',
  ),
  'journal-memory': entry(
    'journal',
    'warning',
    'there is no journal (`journal.dir: none`)',
    'that pending transitions die with flapd',
    'a directory on a disk in `journal.dir`',
  ),
  'journal-directory': entry(
    'journal',
    'problem',
    'the directory cannot be made or written: wrong owner, read-only file system',
    'the directory, and why',
    '`install -d -m 0700 -o USER DIR`; remount it writable',
  ),
  'journal-rights': entry(
    'journal',
    'warning',
    "the journal is another user's, or open to others",
    'owner and mode',
    '`chown`, `chmod 0700`',
  ),
  'journal-damaged': entry(
    'journal',
    'problem',
    'a segment of the journal is damaged or missing',
    'the file, and where',
    '`flapd journal repair`',
  ),
  'journal-newer': entry(
    'journal',
    'problem',
    'a newer flapd has written the journal',
    'the file',
    'run that flapd again, or give this one another `journal.dir`',
  ),
  'journal-space': entry(
    'journal',
    'warning',
    'the file system has less room than `journal.maxSize`',
    'both figures',
    'make room, or lower `journal.maxSize`',
  ),
  'journal-tmpfs': entry(
    'journal',
    'warning',
    'the journal is on a tmpfs',
    'that it does not survive a reboot',
    'a directory on a disk in `journal.dir`',
  ),
  'socket-directory': entry(
    'sockets',
    'problem',
    'the directory of a socket cannot be made or written',
    'the directory, and why',
    "`install -d -m 0750 DIR`; another path in the socket's setting",
  ),
  'socket-taken': entry(
    'sockets',
    'problem',
    'another process listens on the socket, or the path is something else',
    'the path',
    "end that process, or another path in the socket's setting",
  ),
  'socket-group': entry(
    'sockets',
    'problem',
    'the group in `feed.group` does not exist',
    'its name',
    '`groupadd`, or another group',
  ),
  'http-taken': entry(
    'http',
    'problem',
    'another process has the HTTP port',
    'the address',
    'end that process, or another address: `--http HOST:PORT`',
  ),
  'http-address': entry(
    'http',
    'problem',
    'the HTTP address cannot be had',
    'the address, and why',
    "an address of this machine's, and a port above 1023",
  ),
} as const satisfies Record<string, CatalogueEntry>;

export type FindingId = keyof typeof entries;
export const catalogue: Readonly<Record<FindingId, CatalogueEntry>> = entries;
export const findingIds = Object.keys(entries) as FindingId[];
