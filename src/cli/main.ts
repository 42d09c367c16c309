#!/usr/bin/env node
/** The command `flapd`. */
import { CommanderError } from 'commander';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { buildProgram } from './commands.js';

/** Errors that are no bugs, by their code: what they say is for the operator. */
const expected: ReadonlyMap<unknown, ExitCode> = new Map<unknown, ExitCode>([
  ['ETCD_EMBEDDED', ExitCode.system],
  ['ETCD_ENDPOINT_INVALID', ExitCode.config],
  ['ETCD_FILE_UNREADABLE', ExitCode.config],
  ['ETCD_CREDENTIALS_INCOMPLETE', ExitCode.config],
  ['ETCD_CREDENTIALS_UNUSABLE', ExitCode.config],
  ['FEED_SOCKET', ExitCode.system],
  ['HTTP_ADDRESS', ExitCode.system],
  ['JOURNAL_DAMAGED', ExitCode.journalDamaged],
  ['JOURNAL_IO', ExitCode.io],
  ['JOURNAL_LOCKED', ExitCode.denied],
  ['JOURNAL_VERSION', ExitCode.journalDamaged],
  ['WORKER_START', ExitCode.bug],
]);

async function main(): Promise<void> {
  try {
    // All words, since `flapd help run` asks for run as well. One that is an option's value loads a command for nothing.
    const program = await buildProgram(process.argv.slice(2));
    await program.parseAsync();
  } catch (error) {
    process.exitCode = report(error);
  }
}

/** Says what went wrong; returns the exit code. */
function report(error: unknown): ExitCode {
  if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage; // it has said it
  if (error instanceof CommandError) {
    console.error(`flapd: ${error.message}`);
    return error.exitCode;
  }
  const known = error instanceof Error ? expected.get((error as { code?: unknown }).code) : undefined;
  if (error instanceof Error && known !== undefined) {
    console.error(`flapd: ${error.message}`);
    return known;
  }
  return bug(error);
}

function bug(error: unknown): ExitCode {
  console.error('flapd: this is a bug, please report it with what follows:', error);
  return ExitCode.bug;
}

process.on('uncaughtException', (error) => process.exit(bug(error)));

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // The reader has seen enough (flapd watch | head); without one on stderr, there is only nothing to say.
    if (error.code !== 'EPIPE') throw error;
    if (stream === process.stdout) process.exit(ExitCode.ok);
  });
}

await main();
