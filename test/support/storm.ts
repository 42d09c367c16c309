/** `flapd storm` as a process, with what it says while it goes on. */
import { type ChildProcess, spawn } from 'node:child_process';
import type { StormEvent } from '../../src/storm/options.js';
import type { StormReport } from '../../src/storm/report.js';
import { etcdBinary } from './etcd.js';
import { mainFile } from './flapd.js';
import { until } from './waiting.js';

export interface StormOutcome {
  readonly code: number | string;
  /** Null: it printed none. */
  readonly report: StormReport | null;
  /** On stderr, besides the events. */
  readonly errors: string;
}

export class StormProcess {
  readonly events: StormEvent[] = [];
  readonly ended: Promise<StormOutcome>;
  readonly #child: ChildProcess;
  #errors = '';

  constructor(...args: readonly string[]) {
    const child = spawn(
      process.execPath,
      ['--enable-source-maps', mainFile, 'storm', '--json', '--events', ...args],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, FLAPD_ETCD: etcdBinary() },
      },
    );
    this.#child = child;
    let out = '';
    let rest = '';
    child.stdout.on('data', (data: Buffer) => {
      out += data.toString('utf8');
    });
    child.stderr.on('data', (data: Buffer) => {
      const lines = (rest + data.toString('utf8')).split('\n');
      rest = lines.pop()!;
      for (const line of lines) this.#said(line);
    });
    this.ended = new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => {
        const report = out.trim() === '' ? null : (JSON.parse(out) as StormReport);
        resolve({ code: code ?? signal ?? 'unknown', report, errors: this.#errors });
      });
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Waits for an event of this kind, the newest if there are several. */
  async event<Kind extends StormEvent['event']>(kind: Kind): Promise<Extract<StormEvent, { event: Kind }>> {
    return await until(
      `the storm's event ${kind}`,
      () => {
        if (this.#child.exitCode !== null) throw new Error(`the storm has ended: ${this.#errors}`);
        return this.events.findLast(
          (event): event is Extract<StormEvent, { event: Kind }> => event.event === kind,
        );
      },
      { deadlineMs: 60_000 },
    );
  }

  /** Waits until so many transitions are committed. */
  async committed(count: number): Promise<void> {
    await until(
      `${count} transitions to be committed`,
      () => this.events.some((event) => event.event === 'progress' && event.committed >= count),
      { deadlineMs: 120_000 },
    );
  }

  #said(line: string): void {
    if (line.startsWith('{"event"')) this.events.push(JSON.parse(line) as StormEvent);
    else this.#errors += `${line}\n`;
  }
}

export function storm(...args: readonly string[]): Promise<StormOutcome> {
  return new StormProcess(...args).ended;
}
