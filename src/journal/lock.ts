/**
 * One process at a time on a journal. The lock is a file that names the process and when it started, so that a lock
 * that a dead process left behind is known for what it is, even where its pid belongs to another one by now.
 */
import { linkSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export class JournalLockedError extends Error {
  readonly code = 'JOURNAL_LOCKED';
}

/** Throws a JournalLockedError where another process has it. Returns how to let go. */
export function lockJournal(directory: string): () => void {
  const path = join(directory, 'lock');
  const own = `${path}.${process.pid}`;
  writeFileSync(own, `${process.pid} ${startTime(process.pid)}\n`, { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        linkSync(own, path); // fails where it exists: of two that start at once, one gets it
        return () => unlinkSync(path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      const holder = livingHolder(path);
      if (holder !== null) {
        throw new JournalLockedError(
          `the journal in ${directory} is in use by process ${holder}: stop that one first, or give this one another directory (--journal DIR)`,
        );
      }
      // Moved, not removed: of two that find it stale, only one moves it.
      try {
        renameSync(path, `${own}.stale`);
        unlinkSync(`${own}.stale`);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
    }
    throw new JournalLockedError(`the lock of the journal in ${directory} changes hands all the time`);
  } finally {
    unlinkSync(own);
  }
}

function livingHolder(path: string): number | null {
  try {
    const [pid, started] = readFileSync(path, 'utf8').trim().split(' ').map(Number);
    return pid !== undefined && startTime(pid) === started ? pid : null;
  } catch {
    return null;
  }
}

/** When a process started, in clock ticks since boot (proc(5), field 22 of stat); 0: there is no such process. */
function startTime(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
  } catch {
    return 0;
  }
}
