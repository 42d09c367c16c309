/** The commands. Adding one is a line here and a file beside it, which is loaded only when it is asked for. */
import { Command } from 'commander';
import { version } from './version.js';

interface Listed {
  readonly about: string;
  readonly load: () => Promise<Command>;
}

const commands: ReadonlyMap<string, Listed> = new Map([
  [
    'run',
    {
      about: 'the daemon: reports every transition of this host into etcd',
      load: async () => (await import('./run.js')).runCommand(),
    },
  ],
  [
    'status',
    {
      about: 'how the running daemon does: sources, lanes, pending, etcd',
      load: async () => (await import('./status.js')).statusCommand(),
    },
  ],
  [
    'endpoints',
    {
      about: "the running daemon's endpoints, with their status as known and as in etcd",
      load: async () => (await import('./endpoints.js')).endpointsCommand(),
    },
  ],
  [
    'loglevel',
    {
      about: 'shows or changes what the running daemon logs',
      load: async () => (await import('./loglevel.js')).loglevelCommand(),
    },
  ],
  [
    'check',
    {
      about:
        'checks configuration, etcd, permissions, TLS, netlink, journal: says what is wrong, and the way out',
      load: async () => (await import('./check.js')).checkCommand(),
    },
  ],
  [
    'felix-driver',
    {
      about: 'stands between Felix and its dataplane driver, and tells flapd what passes',
      load: async () => (await import('./felix-driver.js')).felixDriverCommand(),
    },
  ],
  [
    'watch',
    {
      about: 'follows the status keys in etcd, as Neutron would see them',
      load: async () => (await import('./watch.js')).watchCommand(),
    },
  ],
  [
    'history',
    {
      about: "an endpoint's last transitions, with times, sources and etcd's revisions",
      load: async () => (await import('./history.js')).historyCommand(),
    },
  ],
  [
    'journal',
    {
      about: 'looks into the journal on disk, and repairs it',
      load: async () => (await import('./journal.js')).journalCommand(),
    },
  ],
  [
    'cursor',
    {
      about: "shows a host's claim and its lanes' cursors",
      load: async () => (await import('./cursor.js')).cursorCommand(),
    },
  ],
  [
    'claim',
    {
      about: 'shows which flapd may write for a host, or takes the host over for this machine',
      load: async () => (await import('./claim.js')).claimCommand(),
    },
  ],
  [
    'storm',
    {
      about: 'makes a storm of flaps and verifies that etcd has each of them, once and in order',
      load: async () => (await import('./storm.js')).stormCommand(),
    },
  ],
]);

export const commandNames: readonly string[] = [...commands.keys()];

/** The whole command line, with those commands loaded whole; the others are there by name. */
export async function buildProgram(wanted: readonly string[]): Promise<Command> {
  const program = new Command('flapd')
    .description('Reports every up and down of every endpoint of a host into etcd: in order, exactly once.')
    .version(version())
    .showHelpAfterError('(flapd --help, or flapd COMMAND --help, tells what there is)')
    .enablePositionalOptions();
  for (const [name, { about, load }] of commands) {
    const command = wanted.includes(name) ? await load() : new Command(name).description(about);
    program.addCommand(command);
  }
  adopt(program);
  return program;
}

/** Errors of usage are thrown, from commands of commands as well, so that one place decides on the exit code. */
function adopt(command: Command): void {
  command.exitOverride();
  for (const child of command.commands) {
    child.copyInheritedSettings(command);
    adopt(child);
  }
}
