/** A network namespace of a test's own, with interfaces that it may flap as it likes. It ends with its holder process. */
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import { until } from './waiting.js';

/**
 * Opens a persistent tap, as QEMU does, and closes it again, so many times with a pause after each step. The kernel
 * takes the carrier from the open file.
 */
const attachAndDetach = `
use strict; use warnings; use Time::HiRes 'usleep';
my ($name, $cycles, $pause, $keep) = @ARGV;
for my $i (1 .. $cycles) {
  open(my $tun, '+<', '/dev/net/tun') or die "open /dev/net/tun: $!";
  my $request = pack('a16 s x22', $name, 0x1002); # struct ifreq: IFF_TAP | IFF_NO_PI
  ioctl($tun, 0x400454ca, $request) or die "TUNSETIFF: $!"; # TUNSETIFF
  if ($i == $cycles && $keep) { print "attached\\n"; close STDOUT; sleep 3600 while 1; }
  usleep($pause * 1000);
  close($tun);
  usleep($pause * 1000);
}`;

export class NetNamespace {
  readonly #holder: ChildProcess;
  readonly #children = new Set<ChildProcess>();

  private constructor(holder: ChildProcess) {
    this.#holder = holder;
  }

  /** Throws, and says why, where this process may not make one: such a test cannot do without. */
  static async create(): Promise<NetNamespace> {
    if (process.getuid?.() !== 0)
      throw new Error('this test makes network interfaces in a namespace of its own: it must run as root');
    const holder = spawn(
      'unshare',
      ['--net', 'sh', '-c', 'ip link set lo up && echo up && exec sleep 3600'],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let said = '';
    holder.stdout.on('data', (data) => {
      said += data;
    });
    holder.stderr.on('data', (data) => {
      said += data;
    });
    holder.once('error', (error) => {
      said += `failed: ${error.message}`;
    });
    await until('a network namespace', () => {
      if (/failed|denied|not permitted/i.test(said)) throw new Error(`no network namespace: ${said}`);
      return said.includes('up');
    });
    return new NetNamespace(holder);
  }

  /** Of a process in it: what `ip link set ... netns` takes. */
  get pid(): number {
    return this.#holder.pid!;
  }

  /** The words to put before a command that is to run inside. The process stays the one that was started. */
  get enter(): string[] {
    return ['nsenter', '-t', String(this.#holder.pid), '-n'];
  }

  /** Runs a command inside; returns what it prints, throws where it fails. */
  exec(command: string, ...args: string[]): string {
    const [enter, ...rest] = [...this.enter, command, ...args];
    return execFileSync(enter!, rest, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** `ip` with these words. */
  ip(words: string): string {
    return this.exec('ip', ...words.split(' '));
  }

  spawn(command: string, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
    const [enter, ...rest] = [...this.enter, command, ...args];
    const child = spawn(enter!, rest, options);
    this.#children.add(child);
    child.once('exit', () => this.#children.delete(child));
    return child;
  }

  /** So many times attached and detached again, with that pause after each. */
  attachAndDetach(tap: string, cycles: number, pauseMs: number): void {
    this.exec('perl', '-e', attachAndDetach, tap, String(cycles), String(pauseMs), '0');
  }

  /** Attaches a tap, as a VM that starts does; returns how to detach it. */
  async attach(tap: string): Promise<() => Promise<void>> {
    const child = this.spawn('perl', ['-e', attachAndDetach, tap, '1', '0', '1'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout!.on('data', (data) => {
      said += data;
    });
    await until(`${tap} to be attached`, () => said.includes('attached'));
    return async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
    };
  }

  /** Ends everything in it. */
  async close(): Promise<void> {
    const ended = [...this.#children, this.#holder].map(
      (child) =>
        new Promise((resolve) =>
          child.exitCode === null && child.signalCode === null ? child.once('exit', resolve) : resolve(null),
        ),
    );
    for (const child of this.#children) child.kill('SIGKILL');
    this.#holder.kill('SIGKILL');
    await Promise.all(ended);
  }
}
