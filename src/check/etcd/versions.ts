/**
 * Versions of etcd with faults that reach flapd or its readers (etcd's changelogs and its robustness reports). flapd is
 * built to bear them; whoever reads the statuses is not always. Pure.
 */
interface Fault {
  readonly what: string;
  /** First patch release with it, by minor version; not named: 0. */
  readonly since?: Readonly<Record<string, number>>;
  /** First patch release without it, by minor version; a minor version not named does not have it. */
  readonly fixed: Readonly<Record<string, number>>;
}

const faults: readonly Fault[] = [
  {
    what: 'reads may be stale after a pause of the process (#20418)',
    since: { '3.4': 20 },
    fixed: { '3.4': 42, '3.5': 28, '3.6': 9 },
  },
  {
    what: 'nested transactions may get around permissions (CVE-2026-33343)',
    fixed: { '3.4': 42, '3.5': 28, '3.6': 9 },
  },
  { what: 'a crash may leave the members different', fixed: { '3.5': 3 } },
  { what: 'a single member may lose a finished write in a crash (#14370)', fixed: { '3.4': 21, '3.5': 5 } },
  { what: 'a crash while it compacts may set revisions back (#17780)', fixed: { '3.4': 32, '3.5': 14 } },
  { what: 'watches may repeat events, or lose them after a compaction', fixed: { '3.4': 31 } },
];

const fixedLast: Readonly<Record<string, number>> = { '3.4': 42, '3.5': 28, '3.6': 9 };

export interface VersionVerdict {
  /** Empty: nothing is known against it. */
  readonly faults: readonly string[];
  /** The release to go to; null where there is none to name. */
  readonly upgradeTo: string | null;
}

/** `version` as etcd says it, such as 3.5.9 or 3.6.0-rc.1. */
export function judgeVersion(version: string): VersionVerdict {
  const match = /^(\d+)\.(\d+)\.(\d+)/.exec(version);
  if (match === null) return { faults: [], upgradeTo: null };
  const [, major, middle, patchText] = match;
  const minor = `${major}.${middle}`;
  const patch = Number(patchText);
  if (Number(major) < 3 || (major === '3' && Number(middle) < 4))
    return { faults: ['it is no longer maintained, and flapd is not tested with it'], upgradeTo: '3.5.28' };
  const has = faults.filter(
    ({ since, fixed }) => patch < (fixed[minor] ?? 0) && patch >= (since?.[minor] ?? 0),
  );
  return {
    faults: has.map(({ what }) => what),
    upgradeTo: has.length === 0 ? null : `${minor}.${fixedLast[minor] ?? 0}`,
  };
}
