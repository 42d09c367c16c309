#!/usr/bin/env node
/** The command `flapd`. Commands are loaded only when they are asked for. */
import { Command, CommanderError } from 'commander';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { version } from './version.js';

const commands: Record<string, { about: string; load: () => Promise<Command> }> = {
  run: {
    about: 'the daemon: reports every transition of this host into etcd',
    load: async () => (await import('./run.js')).runCommand(),
  },
  watch: {
    about: 'follows the status keys in etcd, as Neutron would see them',
    load: async () => (await import('./watch.js')).watchCommand(),
  },
  storm: {
    about: 'makes a storm of flaps and verifies that etcd has each of them, once and in order',
    load: async () => (await import('./storm.js')).stormCommand(),
  },
};

async function main(): Promise<void> {
  const program = new Command('flapd')
    .description('Reports every up and down of every endpoint of a host into etcd: in order, exactly once.')
    .version(version())
    .showHelpAfterError('(flapd --help, or flapd COMMAND --help, tells what there is)')
    .enablePositionalOptions();
  const wanted = process.argv.slice(2).find((argument) => !argument.startsWith('-'));
  for (const [name, { about, load }] of Object.entries(commands)) {
    program.addCommand(name === wanted ? await load() : new Command(name).description(about));
  }
  // Errors of usage are thrown, from commands as well, to end with the right code below.
  for (const command of [program, ...program.commands]) command.exitOverride();
  try {
    await program.parseAsync();
  } catch (error) {
    process.exitCode = report(error);
  }
}

/** Says what went wrong; returns the exit code. */
function report(error: unknown): number {
  if (error instanceof CommanderError) {
    const fine = error.exitCode === 0 || error.code === 'commander.help';
    return fine ? ExitCode.ok : ExitCode.usage; // commander has said it
  }
  if (error instanceof CommandError) {
    console.error(`flapd: ${error.message}`);
    return error.exitCode;
  }
  const code = (error as { code?: unknown }).code;
  if (error instanceof Error && typeof code === 'string' && expected[code] !== undefined) {
    console.error(`flapd: ${error.message}`);
    return expected[code];
  }
  console.error('flapd: this is a bug, please report it:', error);
  return ExitCode.bug;
}

/** Errors that are no bugs, by their code: what they say is for the operator. */
const expected: Record<string, number> = {
  ETCD_EMBEDDED: ExitCode.system,
  ETCD_ENDPOINT_INVALID: ExitCode.config,
  ETCD_FILE_UNREADABLE: ExitCode.config,
  ETCD_CREDENTIALS_INCOMPLETE: ExitCode.config,
  FEED_SOCKET: ExitCode.system,
  HTTP_ADDRESS: ExitCode.system,
  WORKER_START: ExitCode.bug,
};

process.on('uncaughtException', (error) => {
  console.error('flapd: this is a bug, please report it:', error);
  process.exit(ExitCode.bug);
});

await main();
