/** What can be wrong with a journal. Each message says what happened, to which file, and the way out. */

/** Something in it is not what was written. Exit 65. */
export class JournalDamagedError extends Error {
  readonly code = 'JOURNAL_DAMAGED';
}

/** Written by a newer flapd: left untouched. Exit 65. */
export class JournalVersionError extends Error {
  readonly code = 'JOURNAL_VERSION';
}

/** Another process has it. Exit 77. */
export class JournalLockedError extends Error {
  readonly code = 'JOURNAL_LOCKED';
}

/** The disk, or the directory, does not do what it must. Exit 74. */
export class JournalIoError extends Error {
  readonly code = 'JOURNAL_IO';
}

const own: ReadonlySet<unknown> = new Set([
  'JOURNAL_DAMAGED',
  'JOURNAL_VERSION',
  'JOURNAL_LOCKED',
  'JOURNAL_IO',
]);

/** What the system said, as a JournalIoError; what the journal itself says, and a bug, stay as they are. */
export function ioError(error: unknown, directory: string): Error {
  if (!(error instanceof Error)) return new Error(String(error));
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (own.has(code) || syscall === undefined) return error;
  return new JournalIoError(
    `the journal in ${directory} cannot be used: ${error.message}. ` +
      'Check the disk and the permissions, or choose another directory (journal.dir)',
    { cause: error },
  );
}

/** The disk is full, or the quota is: it can be waited for. */
export function isFull(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  return code === 'ENOSPC' || code === 'EDQUOT';
}
