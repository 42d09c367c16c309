/** flapd in the bench: the command itself, as a process, and what it costs. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../src/etcd/embedded.js';
import { subjectEnvironment } from '../../src/storm/subject/settings.js';
import { parseUsage, rssMiBOf } from '../../src/storm/subject/usage.js';

const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));

export class Flapd {
  /** From the process's start to /readyz saying so. */
  readyAfterMs = 0;
  readonly #child: ChildProcess;
  readonly #http: string;
  readonly #exited: Promise<void>;
  #log = '';

  private constructor(settings: ReadonlyMap<string, string>, http: string) {
    this.#http = http;
    const args = [...settings, ['http', http]].flatMap(([name, value]) => ['--set', `${name}=${value}`]);
    this.#child = spawn(process.execPath, [main, 'run', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: subjectEnvironment(process.env),
    });
    this.#child.stderr!.on('data', (data: Buffer) => {
      this.#log = (this.#log + data.toString()).slice(-4000);
    });
    this.#exited = new Promise((resolve) => this.#child.once('exit', () => resolve()));
  }

  /** Resolves when it is ready. */
  static async start(settings: ReadonlyMap<string, string>): Promise<Flapd> {
    const http = `127.0.0.1:${await freePort()}`;
    const startedAtMs = performance.now();
    const flapd = new Flapd(settings, http);
    for (;;) {
      if (flapd.#child.exitCode !== null) throw new Error(`flapd has ended: ${flapd.#log}`);
      const response = await fetch(`http://${http}/readyz`).catch(() => null);
      if (response?.ok) break;
      await delay(5);
    }
    flapd.readyAfterMs = performance.now() - startedAtMs;
    return flapd;
  }

  /** User and system time of all its threads. */
  get cpuMicros(): number {
    return cpuMicrosOf(`/proc/${this.#child.pid}`);
  }

  get mainThreadCpuMicros(): number {
    return cpuMicrosOf(`/proc/${this.#child.pid}/task/${this.#child.pid}`);
  }

  /** By thread. They have no names: the main one has the process's number, and of the others the busiest are the workers. */
  get threadsCpuMicros(): ReadonlyMap<number, number> {
    const folder = `/proc/${this.#child.pid}/task`;
    return new Map(readdirSync(folder).map((thread) => [Number(thread), cpuMicrosOf(`${folder}/${thread}`)]));
  }

  /** Of the processes that it has started: the netlink reader. */
  get childrenCpuMicros(): number {
    return readdirSync(`/proc/${this.#child.pid}/task`)
      .flatMap((thread) =>
        readFileSync(`/proc/${this.#child.pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
      )
      .reduce((sum, pid) => sum + cpuMicrosOf(`/proc/${pid}`), 0);
  }

  get rssMiB(): number {
    return rssMiBOf(this.#child.pid!);
  }

  /** Its own metrics by name, those of several labels added up. */
  async metrics(): Promise<ReadonlyMap<string, number>> {
    const text = await (await fetch(`http://${this.#http}/metrics`)).text();
    const sums = new Map<string, number>();
    for (const [, name, value] of text.matchAll(/^(\w+)(?:\{.*\})? (\S+)$/gm))
      sums.set(name!, (sums.get(name!) ?? 0) + Number(value));
    return sums;
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.#exited;
  }
}

function cpuMicrosOf(folder: string): number {
  return parseUsage(readFileSync(`${folder}/stat`, 'utf8'), '').cpuMicros;
}
