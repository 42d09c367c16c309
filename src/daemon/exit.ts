/** Exit codes, as in sysexits.h where it has one. */
export const ExitCode = {
  ok: 0,
  /** A check failed. */
  failed: 1,
  usage: 64,
  journalDamaged: 65,
  /** etcd cannot be reached (one-shot commands). */
  unavailable: 69,
  bug: 70,
  /** The system does not allow what is needed. */
  system: 71,
  /** Input or output of the journal failed. */
  io: 74,
  /** Transitions are left; they are in the journal. */
  backlog: 75,
  /** Fenced by another flapd, or refused. */
  denied: 77,
  config: 78,
  /** As a shell says it of a program (felix-driver): it cannot be executed; it is not there. */
  notExecutable: 126,
  notFound: 127,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/** An error that ends a command: its message says what happened, to what, and what to do. */
export class CommandError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
