/**
 * The journal on a simulated disk that loses what was not forced to it (fault 41): any course of appends, commits,
 * crashes and power cuts, compared with a model that is a list.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Source, type Status } from '../../../src/endpoints/status.js';
import { FileJournal } from '../../../src/journal/file-journal.js';
import { Listener } from '../../support/journal.js';
import { SimulatedDisk } from '../../support/simulated-disk.js';

const dead = Object.assign(new Error('the process is dead'), { code: 'DEAD' });
const endpoints = 6;

type Step =
  | { readonly kind: 'append'; readonly count: number }
  | { readonly kind: 'flush' }
  | { readonly kind: 'settle'; readonly share: number }
  | { readonly kind: 'powerCut' | 'processDeath'; readonly afterOperations: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('append' as const), count: fc.integer({ min: 1, max: 30 }) }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('flush' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), share: fc.integer({ min: 0, max: 10 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom('powerCut' as const, 'processDeath' as const),
      afterOperations: fc.integer({ min: 0, max: 12 }),
    }),
  },
);

interface Entry {
  readonly seq: number;
  readonly endpoint: number;
  readonly status: Status;
}

/** What a user of the journal knows, and what it must therefore get back. */
class World {
  #random: () => number;
  #disk: SimulatedDisk;
  #journal!: FileJournal;
  #listener = new Listener();
  /** All that was appended and not taken by a crash. */
  #entries: Entry[] = [];
  #settledSeq = 0;
  #counter = 0;
  readonly #named = new Set<number>();
  crashes = 0;

  constructor(seed: number) {
    this.#random = randomOf(seed);
    this.#disk = new SimulatedDisk(this.#random);
  }

  async open(): Promise<void> {
    this.#listener = new Listener();
    this.#journal = await FileJournal.openIn(this.#disk, {
      sync: 'always',
      syncIntervalMs: 100,
      segmentBytes: 700,
      retainBytes: 500,
      bytesMax: 2 ** 30,
      freeBytesMin: 0,
      reserveBytes: 64,
      listener: this.#listener,
    });
  }

  append(count: number): void {
    for (let i = 0; i < count; i++) {
      const seq = (this.#entries.at(-1)?.seq ?? Math.max(this.#settledSeq - 1, 0)) + 1;
      const endpoint = Math.floor(this.#random() * endpoints);
      if (!this.#named.has(endpoint)) {
        this.#journal.nameEndpoint(endpoint as EndpointIndex, `/key/${endpoint}`);
        this.#named.add(endpoint);
      }
      const status = Math.floor(this.#random() * 3) as Status;
      this.#journal.append(seq, endpoint as EndpointIndex, status, Source.netlink, seq, false);
      this.#entries.push({ seq, endpoint, status });
    }
    // Counted up with what was derived from it: what is recovered must not be ahead of the transitions.
    this.#counter = this.#entries.at(-1)!.seq;
    this.#journal.counters({ ifindex: 1, name: 'tap1', running: true, upCount: this.#counter, downCount: 0 });
  }

  async flush(): Promise<void> {
    await this.#journal.flush();
    assert.equal(this.#listener.failure, null);
    if (this.#entries.length > 0) assert.equal(this.#journal.durableSeq, this.#entries.at(-1)!.seq);
  }

  settle(share: number): void {
    const durable = this.#entries.filter(({ seq }) => seq <= this.#journal.durableSeq);
    const one = durable[Math.floor((durable.length * share) / 11)];
    if (one === undefined || one.seq <= this.#settledSeq) return;
    this.#settledSeq = one.seq;
    this.#journal.committed(
      0,
      Uint8Array.of(one.seq & 255),
      one.seq,
      [one.endpoint as EndpointIndex],
      [one.seq],
      [false],
    );
    this.#journal.settled(one.seq);
  }

  async crash(kind: 'powerCut' | 'processDeath', afterOperations: number): Promise<void> {
    let left = afterOperations;
    this.#disk.before = () => {
      if (left-- <= 0) throw dead;
    };
    void this.#journal.flush(); // what it was about to do, until it dies
    for (let turn = 0; turn < 2 * afterOperations + 4; turn++)
      await new Promise((resolve) => setImmediate(resolve));
    const { durableSeq } = this.#journal;
    const before = this.#disk;
    this.#disk = kind === 'powerCut' ? before.powerCut() : before.processDeath();
    await this.#journal.close();
    this.crashes++;
    await this.open();
    this.#check(durableSeq);
  }

  #check(durableSeq: number): void {
    const { recovered } = this.#journal;
    const got: Entry[] = [];
    recovered.forEach((seq, endpoint, status) => {
      got.push({ seq, endpoint, status });
    });
    const first = got[0]?.seq ?? Number.POSITIVE_INFINITY;
    const known = this.#entries.filter(({ seq }) => seq >= first);
    // In order, without a hole: a run of what was appended ...
    assert.deepEqual(got, known.slice(0, got.length));
    // ... that has all that is not settled and was durable.
    const missing = this.#entries.filter(
      ({ seq }) => seq >= this.#settledSeq && seq <= durableSeq && seq < first,
    );
    assert.deepEqual(missing, []);
    assert.ok(
      recovered.lastSeq >= durableSeq,
      `recovered up to ${recovered.lastSeq} of ${durableSeq} durable ones`,
    );
    this.#entries = this.#entries.filter(({ seq }) => seq <= recovered.lastSeq);
    for (const { endpoint } of got)
      assert.equal(recovered.endpoints.get(endpoint as EndpointIndex), `/key/${endpoint}`);
    for (const [endpoint, status] of recovered.statuses) {
      assert.equal(
        status,
        this.#entries.findLast((entry) => entry.endpoint === endpoint)?.status,
        `status of ${endpoint}`,
      );
    }
    for (const { upCount } of recovered.counters)
      assert.ok(upCount <= recovered.lastSeq, 'counters are ahead');
    this.#named.clear();
    for (const endpoint of recovered.endpoints.keys()) this.#named.add(endpoint);
  }

  async end(): Promise<void> {
    await this.#journal.flush();
    await this.crash('powerCut', 0);
    await this.#journal.close();
  }
}

function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe('the journal on a disk that loses what was not forced to it', () => {
  it('has all that was durable, in order, without a hole, after any course of crashes and power cuts', async () => {
    let crashes = 0;
    await fc.assert(
      fc.asyncProperty(fc.integer(), fc.array(step, { minLength: 5, maxLength: 40 }), async (seed, steps) => {
        const world = new World(seed);
        await world.open();
        for (const one of steps) {
          if (one.kind === 'append') world.append(one.count);
          else if (one.kind === 'flush') await world.flush();
          else if (one.kind === 'settle') world.settle(one.share);
          else await world.crash(one.kind, one.afterOperations);
        }
        await world.end();
        crashes += world.crashes;
      }),
      { numRuns: 400 },
    );
    assert.ok(crashes > 1000, `only ${crashes} crashes`);
  });
});
