/**
 * One process at a time on a journal. The lock is flock(2)'s: it belongs to the open file, so the kernel lets go of it
 * when the process ends, however it ends, and nothing stale is ever left to be judged; it holds across containers too.
 * Node has no call for it. But a lock belongs to the open file *description*, which a child inherits: flock(1) (of
 * util-linux) takes it on our descriptor and ends, and the lock stays with us. That costs some milliseconds, once.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { ioError, JournalIoError, JournalLockedError } from './errors.js';

/** What flock(1) is told to exit with where another has the lock; its own errors are others. */
const takenStatus = 99;

/** Returns how to let go. Throws a JournalLockedError where another process has it. */
export function lockJournal(directory: string): () => void {
  const path = join(directory, 'lock');
  const fd = openSync(path, 'a+', 0o600); // not emptied: it names the holder
  try {
    takeLock(fd, path);
    ftruncateSync(fd);
    writeSync(fd, `${process.pid}\n`);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  return () => closeSync(fd);
}

/**
 * Who has the lock, for those who only want to know; null: nobody. It is asked for shared and given back within
 * milliseconds. Throws a JournalIoError where that cannot be told.
 */
export function journalHolder(directory: string): string | null {
  const path = join(directory, 'lock');
  let fd: number;
  try {
    fd = openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw ioError(error, directory);
  }
  try {
    takeLock(fd, path, '-s');
    return null;
  } catch (error) {
    if (!(error instanceof JournalLockedError)) throw error;
    return readFileSync(path, 'utf8').trim();
  } finally {
    closeSync(fd);
  }
}

function takeLock(fd: number, path: string, kind: '-x' | '-s' = '-x'): void {
  const { status, error, stderr } = spawnSync('flock', ['-n', kind, '-E', String(takenStatus), '3'], {
    stdio: ['ignore', 'ignore', 'pipe', fd],
  });
  if (status === 0) return;
  if (status === takenStatus) {
    const holder = readFileSync(path, 'utf8').trim();
    throw new JournalLockedError(
      `the journal is locked by pid ${holder === '' ? '(not known)' : holder} (${path}): ` +
        'stop that process first, or give this one another directory (journal.dir)',
    );
  }
  if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') {
    throw new JournalIoError('the command flock is missing, which locks the journal: install util-linux', {
      cause: error,
    });
  }
  throw new JournalIoError(`${path} cannot be locked: ${error?.message ?? stderr.toString().trim()}`, {
    cause: error,
  });
}
