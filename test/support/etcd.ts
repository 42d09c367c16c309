/** Real etcd servers for tests: each on free ports, in a temporary directory, ended by the pid it was started with. */
import { type ChildProcess, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, spawnEtcd } from '../../src/etcd/embedded.js';
import type { NetNamespace } from './netns.js';
import { until } from './waiting.js';

export type EtcdVersion = '3.4' | '3.5';

export interface EtcdOptions {
  /** 3.5 unless said otherwise. */
  readonly version?: EtcdVersion;
  /** Any free one unless said otherwise. */
  readonly port?: number;
  readonly args?: readonly string[];
  /** A file of `etcdctl snapshot save` to begin with. */
  readonly snapshot?: string;
}

/** Where a member is, if not on the loopback: in a namespace, under its address there. */
export interface MemberHost {
  readonly namespace: NetNamespace;
  readonly address: string;
}

export interface ClusterOptions extends Pick<EtcdOptions, 'version' | 'args'> {
  /** One for each member. */
  readonly hosts?: readonly MemberHost[];
}

export interface Etcd {
  readonly endpoint: string;
  readonly port: number;
  readonly pid: number;
  /** Any signal: SIGSTOP freezes it, SIGKILL is a power cut (wait for restart() then). */
  kill(signal: NodeJS.Signals): void;
  /** Starts it again with the same data and the same ports, after ending it the hard way if it still runs. */
  restart(options?: { args?: readonly string[] }): Promise<void>;
  /** etcdctl: returns what it prints, throws where it fails. */
  ctl(...args: string[]): string;
  /** Ends it and removes its data. */
  close(): Promise<void>;
}

const loopback = '127.0.0.1';
const scripts = fileURLToPath(new URL('../../../scripts/', import.meta.url));
const binaries = new Map<string, string>();

/** The path of that version, got by scripts/etcd (which may have to fetch it). */
export function etcdBinary(version: EtcdVersion = '3.5'): string {
  const named = process.env[version === '3.4' ? 'FLAPD_ETCD_34' : 'FLAPD_ETCD_35'];
  const known = binaries.get(version) ?? named;
  const path =
    known ?? execFileSync(join(scripts, 'etcd'), ['--version', version], { encoding: 'utf8' }).trim();
  binaries.set(version, path);
  return path;
}

export async function startEtcd(options: EtcdOptions = {}): Promise<Etcd> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await startOne(options);
    } catch (error) {
      // A port that was free a moment ago may have been given to somebody else meanwhile.
      const taken = options.port === undefined && /address already in use/.test(String(error));
      if (!taken || attempt === 5) throw error;
    }
  }
}

async function startOne({ version = '3.5', args = [], ...options }: EtcdOptions): Promise<Etcd> {
  const [port, peerPort] = [options.port ?? (await freePort()), await freePort()];
  const member = new Member('test', version, port, peerPort, `test=http://127.0.0.1:${peerPort}`);
  if (options.snapshot !== undefined) member.restore(options.snapshot);
  try {
    await member.start(args);
  } catch (error) {
    await member.close();
    throw error;
  }
  return member;
}

/** A cluster of so many members, on the loopback unless told otherwise. */
export async function startCluster(
  size: number,
  { version = '3.5', args = [], hosts = [] }: ClusterOptions = {},
): Promise<Etcd[]> {
  const ports: [number, number][] = [];
  for (let i = 0; i < size; i++) ports.push([await freePort(), await freePort()]);
  const cluster = ports
    .map(([, peer], i) => `m${i}=http://${hosts[i]?.address ?? loopback}:${peer}`)
    .join(',');
  const members = ports.map(
    ([port, peer], i) => new Member(`m${i}`, version, port, peer, cluster, hosts[i] ?? null),
  );
  await startAll(members, args);
  return members;
}

/** All, or none is left. */
async function startAll(members: readonly Member[], args: readonly string[]): Promise<void> {
  try {
    await Promise.all(members.map((member) => member.start(args)));
  } catch (error) {
    await Promise.all(members.map((member) => member.close()));
    throw error;
  }
}

class Member implements Etcd {
  readonly port: number;
  readonly #name: string;
  readonly #version: EtcdVersion;
  readonly #peerPort: number;
  readonly #cluster: string;
  readonly #host: MemberHost | null;
  readonly #folder = mkdtempSync(join(tmpdir(), 'flapd-etcd-'));
  #args: readonly string[] = [];
  #child: ChildProcess | null = null;
  #exited: Promise<void> = Promise.resolve();
  #words = '';

  constructor(
    name: string,
    version: EtcdVersion,
    port: number,
    peerPort: number,
    cluster: string,
    host: MemberHost | null = null,
  ) {
    this.#name = name;
    this.#version = version;
    this.port = port;
    this.#peerPort = peerPort;
    this.#cluster = cluster;
    this.#host = host;
  }

  get endpoint(): string {
    return `${this.#scheme}://${this.#address}:${this.port}`;
  }

  get pid(): number {
    return this.#child!.pid!;
  }

  async start(args: readonly string[]): Promise<void> {
    this.#args = args;
    const peer = `http://${this.#address}:${this.#peerPort}`;
    const [command, ...rest] = this.#inside(etcdBinary(this.#version));
    const child = spawnEtcd(command!, [
      ...rest,
      `--name=${this.#name}`,
      `--data-dir=${this.#folder}`,
      `--listen-client-urls=${this.endpoint}`,
      `--advertise-client-urls=${this.endpoint}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=${this.#cluster}`,
      ...args,
    ]);
    this.#child = child;
    child.stderr!.on('data', (data) => {
      this.#words = (this.#words + data).slice(-3000);
    });
    let running = true;
    this.#exited = new Promise((resolve) => {
      child.once('exit', () => {
        running = false;
        resolve();
      });
    });
    await until(
      `etcd ${this.#version} to serve`,
      async () => {
        if (!running) throw new Error(`etcd has ended: ${this.#words}`);
        return this.#serves();
      },
      { deadlineMs: 30_000, everyMs: 30 },
    );
  }

  restore(snapshot: string): void {
    const peer = `http://${this.#address}:${this.#peerPort}`;
    rmSync(this.#folder, { recursive: true });
    this.ctl(
      'snapshot',
      'restore',
      snapshot,
      `--data-dir=${this.#folder}`,
      `--name=${this.#name}`,
      `--initial-cluster=${this.#cluster}`,
      `--initial-advertise-peer-urls=${peer}`,
    );
  }

  kill(signal: NodeJS.Signals): void {
    this.#child!.kill(signal);
  }

  async restart(options: { args?: readonly string[] } = {}): Promise<void> {
    await this.#end('SIGKILL');
    await this.start(options.args ?? this.#args);
  }

  ctl(...args: string[]): string {
    const [command, ...rest] = this.#inside(join(dirname(etcdBinary(this.#version)), 'etcdctl'));
    return execFileSync(command!, [...rest, `--endpoints=${this.endpoint}`, ...args], {
      encoding: 'utf8',
      env: { ...process.env, ETCDCTL_API: '3' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  async close(): Promise<void> {
    await this.#end('SIGTERM');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  get #address(): string {
    return this.#host?.address ?? loopback;
  }

  /** The words that run a command where this member is. */
  #inside(command: string): string[] {
    return this.#host === null ? [command] : [...this.#host.namespace.enter, command];
  }

  get #scheme(): string {
    return this.#args.some((arg) => arg.startsWith('--cert-file')) ? 'https' : 'http';
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    this.#child?.kill('SIGCONT');
    this.#child?.kill(signal);
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), 5000);
    await this.#exited;
    clearTimeout(timer);
  }

  /** By etcdctl, which is where the member is. */
  #healthy(): boolean {
    try {
      this.ctl('endpoint', 'health', '--command-timeout=1s');
      return true;
    } catch {
      return false; // not yet
    }
  }

  async #serves(): Promise<boolean> {
    if (this.#host !== null) return this.#healthy();
    if (this.#scheme === 'https') return canConnect(this.port);
    try {
      const response = await fetch(`${this.endpoint}/health`, { signal: AbortSignal.timeout(1000) });
      return String(((await response.json()) as { health: unknown }).health) === 'true';
    } catch {
      return false;
    }
  }
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
