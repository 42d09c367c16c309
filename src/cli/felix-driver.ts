import { Command, Option } from 'commander';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { defaultLimits, runFelixDriver } from '../felix-driver/felix-driver.js';
import { FelixPipesError } from '../felix-driver/pipes.js';
import { endLike, RealDriverError } from '../felix-driver/real-driver.js';
import { openLog } from '../telemetry/log.js';

interface Options {
  readonly flapdSocket: string;
  readonly logLevel: string;
}

export function felixDriverCommand(): Command {
  return (
    new Command('felix-driver')
      .description('stands between Felix and its dataplane driver, and tells flapd what passes')
      .usage('[options] -- REAL-DRIVER [ARGS...]')
      .argument('<command...>', 'the real driver and its arguments')
      // Its arguments are its own, also without the --.
      .passThroughOptions()
      .option('--flapd-socket <path>', 'where flapd listens (its driver.socket)', '/run/flapd/driver.sock')
      .addOption(
        new Option('--log-level <level>', 'what is said on stderr')
          .choices(['trace', 'debug', 'info', 'warn', 'error'])
          .default('info'),
      )
      .addHelpText(
        'after',
        `
For Felix to start, with its pipes as file descriptors 3 and 4. Felix's DataplaneDriver is the name of a program without
arguments, so it takes a script, such as /usr/local/bin/felix-driver:

  #!/bin/sh
  exec flapd felix-driver -- /usr/bin/the-real-driver --its options

and in Felix's configuration UseInternalDataplaneDriver = false, DataplaneDriver = /usr/local/bin/felix-driver. flapd
itself runs with endpoints.from = felix.

All bytes pass unchanged in both directions, also while flapd is away or slow: what it is to hear is kept, up to 64 MiB
and 10,000 transitions of one endpoint; beyond that, final states alone. Signals are passed on to the real driver.

Exit code: the real driver's own, or its signal. 126 if it cannot be executed, 127 if it is not there, 64 where Felix's
pipes are missing.`,
      )
      .action(drive)
  );
}

async function drive(command: [string, ...string[]], { flapdSocket, logLevel }: Options): Promise<void> {
  const log = openLog({ level: logLevel, format: 'auto' });
  const options = { command, socketPath: flapdSocket, limits: defaultLimits, log };
  endLike(
    await runFelixDriver(options).catch((error: unknown) => {
      throw asCommandError(error);
    }),
  );
}

function asCommandError(cause: unknown): unknown {
  if (cause instanceof FelixPipesError) return new CommandError(ExitCode.usage, cause.message, { cause });
  if (!(cause instanceof RealDriverError)) return cause;
  const code = cause.missing ? ExitCode.notFound : ExitCode.notExecutable;
  return new CommandError(code, cause.message, { cause });
}
