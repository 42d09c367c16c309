/**
 * The baselines of the macro bench, in a process of its own: what etcd takes of somebody who does less than flapd.
 *
 *     ceiling       ready-made transactions as flapd's (claim and cursor compared, `endpoints` puts, the cursor put),
 *                   four in flight over node:http2, as fast as etcd takes them
 *     putPerEvent   a hundred single puts in flight, by npm etcd3
 *     felixSerial   one queue, one write after another, each waited for, by npm etcd3: Felix's reporter without its limit
 *     bare          one single put after another, over node:http2: for latencies, and for one endpoint alone
 *                   (with `perSecond`: so many a second, whatever becomes of those before)
 *
 *     node build/bench/macro/load.js '{"mode": …, "etcd": …, "host": …, "endpoints": …, "seconds": …}'
 *
 * Prints one JSON object: {"writes", "seconds", "cpuMicros", "latencyMs"}.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { EndpointIndex } from '../../src/endpoints/id.js';
import { claimKey, cursorKey, statusKey, statusValue, type Where } from '../../src/endpoints/key.js';
import { Status } from '../../src/endpoints/status.js';
import { decodeAnswer } from '../../src/etcd/answer.js';
import { openEtcd } from '../../src/etcd/client.js';
import { TxnEncoder } from '../../src/etcd/encoding.js';
import { encodeCursor } from '../../src/reporter/cursor.js';
import { bytesField } from '../../src/wire/protobuf.js';
import { benchEndpoint } from './endpoint.js';
import { PlainClient } from './http2-client.js';
import { type Percentiles, percentilesOf } from './percentiles.js';

export interface LoadOptions {
  readonly mode: 'ceiling' | 'putPerEvent' | 'felixSerial' | 'bare';
  readonly etcd: string;
  readonly host: string;
  /** Of one transaction, for the ceiling; of all, for the others. */
  readonly endpoints: number;
  /** After up to a second in which nothing is measured: code compiled, connections open. */
  readonly seconds: number;
  /** Of bare, instead of one after another. */
  readonly perSecond?: number;
}

export interface LoadResult {
  readonly writes: number;
  readonly seconds: number;
  readonly cpuMicros: number;
  /** Of single writes, or of transactions. */
  readonly latencyMs: Percentiles;
}

const inFlight = 4;
const putsInFlight = 100;
/** Ready-made transactions of each lane: two are told apart by their cursors, so that each can follow the other. */
const readyMade = 2;

type Until = () => boolean;
type Done = { readonly writes: number; readonly latenciesMs: number[] };

const options = JSON.parse(process.argv[2]!) as LoadOptions;
const warmSecondsMax = 1;
const where = { host: options.host, region: null };
const keyOf = (n: number): string => statusKey(benchEndpoint(n), where);
const statuses = [Status.up, Status.down] as const;

async function ceiling(until: Until, where: Where): Promise<Done> {
  const claim = Buffer.from('the claim of a baseline');
  const client = openEtcd({ endpoints: [options.etcd] });
  await client.put(claimKey(where)).value(claim);
  client.close();
  const encoder = new TxnEncoder({
    claimKey: claimKey(where),
    cursorKey: (lane) => cursorKey(where, lane),
    statusKeyOf: (endpoint) => statusKey(benchEndpoint(endpoint), where),
  });
  let writes = 0;
  const latenciesMs: number[] = [];
  const http2 = new PlainClient(options.etcd);
  const lane = async (id: number): Promise<void> => {
    const endpoints = Array.from(
      { length: options.endpoints },
      (_, i) => (id * options.endpoints + i) as EndpointIndex,
    );
    const cursors = Array.from({ length: readyMade }, (_, i) => encodeCursor(i + 1, 1000 + i, [], []));
    const encode = (cursorBefore: Uint8Array | null, i: number): Uint8Array =>
      encoder.encode({
        lane: id,
        claim,
        cursorBefore,
        cursorAfter: cursors[i]!,
        endpoints,
        statuses: endpoints.map(() => statuses[i]!),
        seqs: [],
      });
    const requests = [encode(cursors[1]!, 0), encode(cursors[0]!, 1)];
    let request = encode(null, 0);
    for (let n = 1; !until(); n++) {
      const startedAtMs = performance.now();
      const answer = decodeAnswer(await http2.call('/etcdserverpb.KV/Txn', request));
      if (answer.kind !== 'committed')
        throw new Error(`the ceiling's transaction: ${JSON.stringify(answer)}`);
      latenciesMs.push(performance.now() - startedAtMs);
      writes += options.endpoints;
      request = requests[n % readyMade]!;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, (_, id) => lane(id)));
  http2.close();
  return { writes, latenciesMs };
}

async function puts(atATime: number, until: Until): Promise<Done> {
  const client = openEtcd({ endpoints: [options.etcd] });
  const latenciesMs: number[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (!until()) {
      const n = next++;
      const startedAtMs = performance.now();
      const status = statuses[Math.floor(n / options.endpoints) % 2]!;
      await client.put(keyOf(n % options.endpoints)).value(Buffer.from(statusValue(status)));
      latenciesMs.push(performance.now() - startedAtMs);
    }
  };
  await Promise.all(Array.from({ length: atATime }, worker));
  client.close();
  return { writes: latenciesMs.length, latenciesMs };
}

async function bare(until: Until): Promise<Done> {
  const client = new PlainClient(options.etcd);
  const latenciesMs: number[] = [];
  const put = async (n: number): Promise<void> => {
    const status = statuses[Math.floor(n / options.endpoints) % 2]!;
    const request = Buffer.concat([
      bytesField(1, keyOf(n % options.endpoints)),
      bytesField(2, statusValue(status)),
    ]);
    const startedAtMs = performance.now();
    await client.call('/etcdserverpb.KV/Put', request);
    latenciesMs.push(performance.now() - startedAtMs);
  };
  if (options.perSecond === undefined) for (let n = 0; !until(); n++) await put(n);
  else await atPace(options.perSecond, put, until);
  client.close();
  return { writes: latenciesMs.length, latenciesMs };
}

async function atPace(perSecond: number, put: (n: number) => Promise<void>, until: Until): Promise<void> {
  const all: Promise<void>[] = [];
  const beganAtMs = performance.now();
  for (let n = 0; !until(); n++) {
    const dueAtMs = beganAtMs + (n * 1000) / perSecond;
    if (dueAtMs > performance.now()) await delay(dueAtMs - performance.now());
    all.push(put(n));
  }
  await Promise.all(all);
}

const run = {
  ceiling,
  putPerEvent: (until: Until) => puts(putsInFlight, until),
  felixSerial: (until: Until) => puts(1, until),
  bare,
}[options.mode];
const after = (seconds: number): Until => {
  const endMs = performance.now() + seconds * 1000;
  return () => performance.now() >= endMs;
};
await run(after(Math.min(options.seconds, warmSecondsMax)), { ...where, host: `${where.host}-warm` });
const startedAtMs = performance.now();
const cpuBefore = process.cpuUsage();
const { writes, latenciesMs } = await run(after(options.seconds), where);
const cpu = process.cpuUsage(cpuBefore);
const result: LoadResult = {
  writes,
  seconds: (performance.now() - startedAtMs) / 1000,
  cpuMicros: cpu.user + cpu.system,
  latencyMs: percentilesOf(latenciesMs.sort((a, b) => a - b)),
};
console.log(JSON.stringify(result));
