/** What the netlink source says of a network namespace's interfaces, as it says it: see netlink-child.ts. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { LinkCounters } from '../../../src/sources/netlink/links.js';
import type { NetNamespace } from '../../support/netns.js';
import { until } from '../../support/waiting.js';
import type { ChildLine, ChildOptions } from './netlink-child.js';

export class NetlinkReader {
  readonly lines: ChildLine[] = [];
  errors = '';
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown[]>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = once(child, 'exit');
    let rest = '';
    child.stdout!.on('data', (chunk: Buffer) => {
      const whole = (rest + chunk.toString('utf8')).split('\n');
      rest = whole.pop()!;
      for (const line of whole) this.lines.push(JSON.parse(line) as ChildLine);
    });
    child.stderr!.on('data', (chunk: Buffer) => {
      this.errors += chunk.toString('utf8');
    });
  }

  static spawn(namespace: NetNamespace, options: Partial<ChildOptions> = {}): NetlinkReader {
    const all: ChildOptions = {
      receiveBufferBytes: 4 * 1024 * 1024,
      carrierCounters: true,
      remember: [],
      throwAt: null,
      ...options,
    };
    const file = fileURLToPath(new URL('netlink-child.js', import.meta.url));
    return new NetlinkReader(
      namespace.spawn(process.execPath, ['--enable-source-maps', file, JSON.stringify(all)], {
        stdio: ['pipe', 'pipe', 'pipe'],
      }),
    );
  }

  /** Resolves when it has read all interfaces that there are. */
  static async start(namespace: NetNamespace, options: Partial<ChildOptions> = {}): Promise<NetlinkReader> {
    const reader = NetlinkReader.spawn(namespace, options);
    await until(`the interfaces to be read${reader.errors}`, () =>
      reader.lines.some(({ kind }) => kind === 'inSync'),
    );
    return reader;
  }

  /** What was told of an interface by this name, with its number in place of a name: "4 up", "4 gone". */
  of(name: string): string[] {
    const told: string[] = [];
    let ifindex = 0;
    for (const line of this.lines) {
      if (line.kind === 'link' && line.name === name) {
        ifindex = line.ifindex;
        told.push(line.running ? 'up' : 'down');
      } else if (line.kind === 'link' && line.ifindex === ifindex) {
        told.push(`is ${line.name}`);
        ifindex = 0;
      } else if (line.kind === 'gone' && line.ifindex === ifindex) {
        told.push('gone');
      }
    }
    return told;
  }

  indexes(name: string): number[] {
    return [
      ...new Set(
        this.lines.flatMap((line) => (line.kind === 'link' && line.name === name ? [line.ifindex] : [])),
      ),
    ];
  }

  get addresses(): string[] {
    return this.lines.flatMap((line) =>
      line.kind === 'address' ? [`${line.present ? '+' : '-'}${line.address}`] : [],
    );
  }

  /** The last that was told for the journal. */
  counters(name: string): LinkCounters | undefined {
    const last = this.lines.findLast((line) => line.kind === 'counters' && line.name === name);
    if (last?.kind !== 'counters') return undefined;
    const { kind: _, ...counters } = last;
    return counters;
  }

  async figures(): Promise<{ overruns: number; recoveredFlaps: number }> {
    const from = this.lines.length;
    this.#child.stdin!.write('\n');
    const found = await until('the figures', () =>
      this.lines.slice(from).find((line) => line.kind === 'figures'),
    );
    return found as Extract<ChildLine, { kind: 'figures' }>;
  }

  /** The process that holds the socket (reader-process.ts). */
  get socketProcess(): number {
    const { pid } = this.#child;
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** How it ended: its exit code, or the signal's name. */
  async ended(): Promise<number | string> {
    const [code, signal] = (await this.#ended) as [number | null, string | null];
    return code ?? signal!;
  }

  async stop(): Promise<number | string> {
    this.#child.stdin!.end();
    return this.ended();
  }
}
