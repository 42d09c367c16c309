/**
 * flapd and interfaces that the kernel flaps, in a network namespace of their own: how much of a core its main thread
 * takes for each link message, and whether one is lost.
 *
 *     node build/bench/netlink/flaps.js '{"interfaces": …, "seconds": …}'
 *
 * The peers of veth pairs go down and up by `ip -batch`: the kernel tells of the peer, and of the carrier of the watched
 * side, so every toggle is two messages or three, and one transition, which goes into journal and etcd like any. First as
 * fast as that goes, which warms everything up and tells how many messages a toggle is; then at a steady pace.
 * Prints one JSON object (FlapsResult).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EmbeddedEtcd, findEtcdBinary } from '../../src/etcd/embedded.js';
import { IpBatch } from '../../src/storm/drive/ip-batch.js';
import { inOwnNamespace, NamespaceError, runInOwnNamespace } from '../../src/storm/drive/namespace.js';
import { subjectSettings } from '../../src/storm/subject/settings.js';
import { Flapd } from '../macro/flapd.js';

export interface FlapsOptions {
  readonly interfaces: number;
  readonly seconds: number;
}

export interface FlapsMeasured {
  readonly messages: number;
  readonly seconds: number;
  /** CPU time, all of it in microseconds, for each message. */
  readonly mainThreadMicros: number;
  readonly processMicros: number;
  readonly readerMicros: number;
  /** What was lost, in words; null: nothing. */
  readonly lost: string | null;
}

/** Or why there is none. */
export type FlapsResult = FlapsMeasured | { readonly denied: string };

type Metrics = ReadonlyMap<string, number>;

const commits = 'flapd_transitions_committed_total';
const received = 'flapd_netlink_messages_total';
const patienceMs = 10_000;
/** A fifth more than is promised. */
const messagesPerSecond = 12_000;
/** At a time: a steady pace, not bursts. */
const togglesAtOnce = 20;

async function measure({ interfaces, seconds }: FlapsOptions): Promise<FlapsMeasured> {
  const folder = mkdtempSync(join(tmpdir(), 'flapd-bench-netlink-'));
  const ip = new IpBatch();
  let etcd: EmbeddedEtcd | null = null;
  let flapd: Flapd | null = null;
  try {
    await ip.run(...Array.from({ length: interfaces }, (_, n) => pair(n)).flat());
    etcd = await EmbeddedEtcd.start({
      binary: findEtcdBinary(),
      dataDir: join(folder, 'etcd'),
      clientPort: 0,
    });
    flapd = await Flapd.start(
      subjectSettings({
        via: 'netlink',
        host: 'bench',
        connection: { endpoints: [etcd.endpoint] },
        socketPath: '',
        journalDir: join(folder, 'journal'),
        endpoints: interfaces,
        production: false,
        overrides: new Map(),
      }),
    );
    return await flap(flapd, ip, { interfaces, seconds });
  } finally {
    await flapd?.stop();
    await etcd?.crash(); // faster than a good-bye, and its data go
    await ip.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function flap(
  flapd: Flapd,
  ip: IpBatch,
  { interfaces, seconds }: FlapsOptions,
): Promise<FlapsMeasured> {
  const round = ['down', 'up'].flatMap((state) =>
    Array.from({ length: interfaces }, (_, n) => `link set dev p${n} ${state}`),
  );
  let next = 0;
  const flapFor = async (forMs: number, perSecond: number): Promise<number> => {
    const beganAtMs = performance.now();
    let toggles = 0;
    while (performance.now() - beganAtMs < forMs) {
      await ip.run(...round.slice(next, next + togglesAtOnce));
      toggles += Math.min(togglesAtOnce, round.length - next);
      next = next + togglesAtOnce < round.length ? next + togglesAtOnce : 0;
      const aheadMs = (toggles * 1000) / perSecond - (performance.now() - beganAtMs);
      if (aheadMs >= 1) await delay(aheadMs);
    }
    return toggles;
  };
  const atFirst = await settled(flapd);
  const warm = await flapFor(seconds * 250, Number.POSITIVE_INFINITY);
  const before = await committed(flapd, (atFirst.get(commits) ?? 0) + warm);
  const messagesPerToggle = ((before.get(received) ?? 0) - (atFirst.get(received) ?? 0)) / warm;
  const usedBefore = usage(flapd);
  const beganAtMs = performance.now();
  const toggles = await flapFor(seconds * 1000, messagesPerSecond / messagesPerToggle);
  const tookMs = performance.now() - beganAtMs;
  const after = await committed(flapd, (before.get(commits) ?? 0) + toggles);
  const used = usage(flapd).map((micros, i) => micros - usedBefore[i]!);
  const grown = (name: string): number => (after.get(name) ?? 0) - (before.get(name) ?? 0);
  const messages = grown(received);
  const overruns = grown('flapd_netlink_overruns_total');
  const transitions = grown(commits);
  return {
    messages,
    seconds: tookMs / 1000,
    mainThreadMicros: used[0]! / messages,
    processMicros: used[1]! / messages,
    readerMicros: used[2]! / messages,
    lost:
      overruns === 0 && transitions === toggles
        ? null
        : `${overruns} overruns; ${transitions} transitions of ${toggles} flaps`,
  };
}

function pair(n: number): string[] {
  return [
    `link add name veth${n} type veth peer name p${n}`,
    `link set dev veth${n} up`,
    `link set dev p${n} up`,
  ];
}

function usage(flapd: Flapd): [number, number, number] {
  return [flapd.mainThreadCpuMicros, flapd.cpuMicros, flapd.childrenCpuMicros];
}

/** When nothing has come for longer than the second that the kernel may take to tell of a carrier, all has. */
async function settled(flapd: Flapd): Promise<Metrics> {
  let [metrics, sinceMs] = [await flapd.metrics(), performance.now()];
  while (performance.now() - sinceMs < 1200) {
    await delay(100);
    const now = await flapd.metrics();
    if (now.get(commits) !== metrics.get(commits)) sinceMs = performance.now();
    metrics = now;
  }
  return metrics;
}

/** Every flap is in etcd, or never will be. */
async function committed(flapd: Flapd, count: number): Promise<Metrics> {
  const deadlineMs = performance.now() + patienceMs;
  for (;;) {
    const metrics = await flapd.metrics();
    if ((metrics.get(commits) ?? 0) >= count || performance.now() > deadlineMs) return metrics;
    await delay(100);
  }
}

function tell(result: FlapsResult): void {
  console.log(JSON.stringify(result));
}

if (inOwnNamespace()) {
  tell(await measure(JSON.parse(process.argv[2]!) as FlapsOptions));
} else {
  try {
    process.exitCode = await runInOwnNamespace();
  } catch (error) {
    if (!(error instanceof NamespaceError)) throw error;
    const { code, message } = error;
    tell({ denied: code === 'NAMESPACE_DENIED' ? 'a network namespace takes root' : message });
  }
}
