/** The journal's directory, and what is in it. Nothing is written; it may be looked at while flapd runs. */
import { statfsSync, statSync } from 'node:fs';
import { sizeText } from '../../config/values.js';
import { RealDirectory } from '../../journal/directory.js';
import { journalHolder } from '../../journal/lock.js';
import { readJournal, type SegmentReport } from '../../journal/reader.js';
import { type Finding, fine, found } from '../finding.js';
import { shellWord } from '../shell.js';
import { directoryState } from './paths.js';

export interface JournalWanted {
  /** Null: none. */
  readonly directory: string | null;
  readonly bytesMax: number;
}

/** statfs(2), linux/magic.h: file systems in memory. */
const inMemory: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

/** `running`: a flapd has the journal. */
export function checkJournal({ directory, bytesMax }: JournalWanted): {
  readonly findings: Finding[];
  readonly running: boolean;
} {
  if (directory === null) return { findings: [withoutJournal()], running: false };
  const state = directoryState(directory);
  const install = `install -d -m 0700 -o FLAPDS-USER ${shellWord(directory)}`;
  if (state.kind === 'unusable')
    return {
      findings: [
        found(
          'journal-directory',
          `the journal cannot be in ${directory}: ${state.why}`,
          `as root: ${install}; where the file system is read-only, find out why (dmesg) and remount it. Or another directory: --journal DIR`,
        ),
      ],
      running: false,
    };
  const findings = state.kind === 'there' ? [...rightsOf(directory)] : [];
  findings.push(...fileSystemOf(state.kind === 'there' ? directory : state.below, directory, bytesMax));
  if (state.kind === 'creatable') {
    findings.unshift(fine('journal', `${directory} will be made at the first start`));
    return { findings, running: false };
  }
  try {
    const holder = journalHolder(directory);
    const content = contentOf(directory);
    if (!content.some(({ level }) => level === 'problem'))
      findings.unshift(
        fine(
          'journal',
          holder === null ? `${directory} is free` : `${directory} is in use: flapd runs (pid ${holder})`,
        ),
      );
    return { findings: [...findings, ...content], running: holder !== null };
  } catch (error) {
    findings.push(
      found(
        'journal-directory',
        `the journal in ${directory} cannot be read: ${error instanceof Error ? error.message : error}`,
        `see to the owner and the rights of what is in it (chown -R), and to the disk (dmesg); flock is of util-linux`,
      ),
    );
    return { findings, running: false };
  }
}

function withoutJournal(): Finding {
  return found(
    'journal-memory',
    'there is no journal: what is pending is lost when flapd dies or the machine does',
    'a directory on a disk in journal.dir, such as /var/lib/flapd/journal',
  );
}

function rightsOf(directory: string): Finding[] {
  const { uid, mode } = statSync(directory);
  const own = process.geteuid?.() ?? uid;
  const bits = (mode & 0o777).toString(8).padStart(4, '0');
  if (uid === own && (mode & 0o022) === 0) return [];
  return [
    found(
      'journal-rights',
      uid === own
        ? `${directory} may be written by others (mode ${bits})`
        : `${directory} belongs to uid ${uid}, and this is uid ${own} (is it flapd's user that checks?)`,
      `chown -R FLAPDS-USER ${shellWord(directory)}; chmod 0700 ${shellWord(directory)}`,
    ),
  ];
}

function fileSystemOf(existing: string, directory: string, bytesMax: number): Finding[] {
  const { type, bavail, bsize } = statfsSync(existing);
  const findings: Finding[] = [];
  if (inMemory.has(type))
    findings.push(
      found(
        'journal-tmpfs',
        `${directory} is on a file system in memory: what is pending does not survive a reboot or a power cut`,
        'a directory on a disk: journal.dir (--journal DIR), such as /var/lib/flapd/journal',
      ),
    );
  const free = bavail * bsize;
  if (free < bytesMax)
    findings.push(
      found(
        'journal-space',
        `${directory} has room for ${roundText(free)}, and the journal may grow to ${sizeText(bytesMax)} (journal.maxSize) while etcd is away`,
        'make room on it, choose another directory (--journal DIR), or lower journal.maxSize',
      ),
    );
  return findings;
}

function roundText(bytes: number): string {
  return `${Math.floor(bytes / 2 ** 20)}MiB`;
}

function contentOf(directory: string): Finding[] {
  return judgeSegments(readJournal(new RealDirectory(directory), {}), directory);
}

/** Pure. A torn tail is what a power cut leaves: the next start cuts it. */
export function judgeSegments(segments: readonly SegmentReport[], directory: string): Finding[] {
  const where = ({ file, state, badAt }: SegmentReport) =>
    state === 'missing' ? `${file} is missing` : `${file} is damaged at byte ${badAt}`;
  const newer = segments.filter(({ state }) => state === 'newer');
  const damaged = segments.filter(({ state }) => state === 'damaged' || state === 'missing');
  const findings: Finding[] = [];
  if (newer.length > 0)
    findings.push(
      found(
        'journal-newer',
        `${newer.map(({ file }) => file).join(', ')} in ${directory} was written by a newer flapd`,
        'run that flapd again until nothing is pending (flapd journal stat), or give this one another directory (--journal DIR)',
      ),
    );
  if (damaged.length > 0)
    findings.push(
      found(
        'journal-damaged',
        `in ${directory}: ${damaged.map(where).join('; ')}`,
        `keeps all that is good, and puts the rest aside: flapd journal repair --dir ${shellWord(directory)}`,
      ),
    );
  return findings;
}
