/** The flapd under test: a process of its own, so that what it costs is its own, and so that it can be killed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { type Usage, usageOf } from './usage.js';

export interface DaemonOptions {
  /** Of node: the command's main file, `run` and what follows. */
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly logFile: string;
  /** It ended, and not by the storm's doing. */
  readonly onDeath: (why: string) => void;
}

export class DaemonDied extends Error {
  readonly code = 'STORM_FLAPD_DIED';
}

const stopDeadlineMs = 20_000;

export class Daemon {
  kills = 0;
  readonly #options: DaemonOptions;
  #child: ChildProcess | null = null;
  #exited: Promise<number | null> = Promise.resolve(null);
  #expected = false;
  /** Of the lives that have ended. */
  #cpuMicros = 0;
  #rssKiBMax = 0;

  constructor(options: DaemonOptions) {
    this.#options = options;
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  start(): void {
    this.#expected = false;
    const log = openSync(this.#options.logFile, 'a');
    const { args, env } = this.#options;
    // A process group of its own: Ctrl-C is for the storm, which then ends flapd.
    const child = spawn(process.execPath, [...args], { stdio: ['ignore', log, log], env, detached: true });
    closeSync(log);
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      const ended = (why: string, code: number | null): void => {
        if (!this.#expected) this.#options.onDeath(`${why}. Its last words:\n${this.lastWords()}`);
        resolve(code);
      };
      child.once('error', (error) => ended(`flapd could not be started: ${error.message}`, null));
      child.once('exit', (code, signal) =>
        ended(
          `flapd ended by itself with ${signal === null ? `exit code ${code}` : `signal ${signal}`}`,
          code,
        ),
      );
    });
  }

  /** As the kernel, out of memory, would: no handler runs, nothing is flushed. Then it is started again, at once. */
  async killAndRestart(): Promise<void> {
    this.#account();
    this.#expected = true;
    this.#child!.kill('SIGKILL');
    await this.#exited;
    this.kills++;
    this.start();
  }

  /** Of all its lives together. */
  usage(): Usage {
    const now = this.#child?.pid === undefined ? null : usageOf(this.#child.pid);
    return {
      cpuMicros: this.#cpuMicros + (now?.cpuMicros ?? 0),
      rssKiBMax: Math.max(this.#rssKiBMax, now?.rssKiBMax ?? 0),
    };
  }

  /** Resolves when it has ended, at the latest after so long. */
  async endsWithin(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
    });
    await Promise.race([this.#exited, late]);
    clearTimeout(timer);
  }

  /** SIGTERM. Returns its exit code; null where it had to be killed. */
  async stop(): Promise<number | null> {
    if (this.#child === null) return null;
    this.#account();
    this.#expected = true;
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.killNow(), stopDeadlineMs);
    const code = await this.#exited;
    clearTimeout(timer);
    this.#child = null;
    return code;
  }

  /** When there is no time left to wait. */
  killNow(): void {
    this.#expected = true;
    this.#child?.kill('SIGKILL');
  }

  /** The end of its log. */
  lastWords(): string {
    try {
      return readFileSync(this.#options.logFile, 'utf8').trimEnd().split('\n').slice(-10).join('\n');
    } catch {
      return '(it said nothing)';
    }
  }

  #account(): void {
    const { cpuMicros, rssKiBMax } = this.usage();
    this.#cpuMicros = cpuMicros;
    this.#rssKiBMax = rssKiBMax;
  }
}
