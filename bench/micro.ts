/**
 * The hot path's pieces, one by one: `npm run bench:micro`. Figures are of this machine at this moment; what counts is
 * how they stand to each other, and to the same run of another commit.
 */
import Benchmark from 'benchmark';
import type { EndpointId, EndpointIndex } from '../src/endpoints/id.js';
import { claimKey, cursorKey, statusKey } from '../src/endpoints/key.js';
import { Source, Status } from '../src/endpoints/status.js';
import { TxnEncoder } from '../src/etcd/encoding.js';
import { encodeCursor } from '../src/reporter/cursor.js';
import type { Txn } from '../src/reporter/effects.js';
import { Reporter } from '../src/reporter/reporter.js';
import { encodeStatus, FromDataplaneDecoder } from '../src/sources/felix/messages.js';

const where = { host: 'compute-1', region: null };
const vm = (n: number): EndpointId => ({
  kind: 'workload',
  orchestrator: 'openstack',
  workload: `openstack/vm${n}`,
  endpoint: `port${n}`,
});
const endpoints = Array.from({ length: 127 }, (_, n) => n as EndpointIndex);

const encoder = new TxnEncoder({
  claimKey: claimKey(where),
  cursorKey: (lane) => cursorKey(where, lane),
  statusKeyOf: (endpoint) => statusKey(vm(endpoint), where),
});
const cursor = encodeCursor(1, 1e15, [], []);
const txn = (count: number): Txn => ({
  lane: 0,
  claim: cursor,
  cursorBefore: cursor,
  cursorAfter: cursor,
  endpoints: endpoints.slice(0, count),
  statuses: endpoints.slice(0, count).map(() => Status.up),
  seqs: [],
});
const full = txn(127);
const small = txn(5);

const ahead = endpoints.map((endpoint) => 1e15 + 10 * endpoint);

const frames = endpoints.map((n) => encodeStatus(vm(n), Status.up));
const decoder = new FromDataplaneDecoder(() => 0 as EndpointIndex, 20_000);

/** Observed, batched, committed: the core without anything around it. */
function makeCore(): () => void {
  const reporter: Reporter = new Reporter({
    lanes: 1,
    sackMax: 1024,
    txn: { maxOps: 128, bytesMax: 1 << 20, watchBytesMax: 0 },
    limits: { txnsPerSecond: 0, burst: 1 },
    schedule: {
      endpointDelayMs: 0,
      endpointCatchUpMs: 1,
      confirm: false,
      confirmAfterMs: 1,
      confirmAfterOutageMs: 1,
    },
    pendingMax: 1e6,
    startJitterMs: 0,
    random: () => 0,
    append: (seq) => reporter.durable(seq, 0),
  });
  for (const endpoint of endpoints) reporter.queues.addEndpoint(endpoint, 'workload', 0, 100);
  reporter.poll(0);
  reporter.claimAnswered({ kind: 'claimed', claim: cursor, epoch: 1, revision: 1, cursors: [null] }, 0);
  reporter.seed([], 0);
  let round = 0;
  return () => {
    round++;
    for (const endpoint of endpoints)
      reporter.observe(endpoint, round % 2 === 0 ? Status.up : Status.down, Source.felix, round);
    for (const effect of reporter.poll(round)) {
      if (effect.kind === 'send')
        reporter.answered(0, effect.attempt, { kind: 'committed', revision: round }, round);
    }
    reporter.poll(round);
  };
}

let next = 0;
new Benchmark.Suite()
  .add('encode a transaction of 127 endpoints', () => encoder.encode(full))
  .add('encode a transaction of 5 endpoints', () => encoder.encode(small))
  .add('encode a cursor with 127 endpoints ahead', () => encodeCursor(7, 1e15 - 1, endpoints, ahead))
  .add('decode a status frame', () => decoder.decode(frames[next++ % frames.length]!))
  .add('127 transitions through the core', makeCore())
  .on('cycle', (event: Benchmark.Event) => console.log(String(event.target)))
  .run();
