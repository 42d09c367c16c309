import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import type { Status } from '../../../src/endpoints/status.js';
import { FrameSplitter, frame } from '../../../src/sources/felix/frames.js';
import { encodeAck, FromDataplaneDecoder } from '../../../src/sources/felix/messages.js';
import { FeedDriver } from '../../../src/storm/drive/feed.js';
import { makePace } from '../../../src/storm/drive/pace.js';
import { expectedOfFeed, type Known } from '../../../src/storm/plan/expectation.js';
import { makePlan } from '../../../src/storm/plan/plan.js';
import { Random } from '../../../src/storm/plan/random.js';

const patienceMs = 20_000;

/** Accepts as flapd does, and dies when it is told to: what it has accepted by then, it remembers. */
class FakeFlapd {
  readonly accepted: Status[][] = [];
  deaths = 0;
  readonly #names = new Map<string, EndpointIndex>();
  readonly #known: Known[] = [];
  readonly #dies: () => 'before' | 'after' | null;
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;

  /** `dies` is asked at each status: before or after it is accepted, or not now. What it had accepted stays unacknowledged. */
  constructor(dies: () => 'before' | 'after' | null) {
    this.#dies = dies;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  async listen(path: string): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(path, resolve));
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    let dead = false;
    let toAcknowledge = 0;
    const decoder = new FromDataplaneDecoder((id) => {
      const known = this.#names.get(id.endpoint);
      if (known !== undefined) return known;
      const endpoint = this.#names.size as EndpointIndex;
      this.#names.set(id.endpoint, endpoint);
      this.accepted[endpoint] = [];
      this.#known[endpoint] = null;
      return endpoint;
    }, 100);
    const splitter = new FrameSplitter(65_536, (bytes, start, end) => {
      const message = bytes.subarray(start, end);
      if (dead) return;
      const { endpoint, status, sequenceNumber } = decoder.decode(message);
      const dies = this.#dies();
      if (dies !== 'before') {
        this.accepted[endpoint]!.push(...expectedOfFeed(this.#known[endpoint]!, status));
        this.#known[endpoint] = status;
        toAcknowledge = sequenceNumber;
      }
      if (dies === null) return;
      dead = true;
      this.deaths++;
      socket.destroy();
    });
    socket.on('data', (chunk) => {
      splitter.push(chunk);
      if (!dead) socket.write(frame(encodeAck(toAcknowledge)));
    });
    socket.on('error', () => socket.destroy());
  }

  /** By name, so that it can be compared with a plan. */
  acceptedOf(name: string): readonly Status[] {
    const endpoint = this.#names.get(name);
    return endpoint === undefined ? [] : this.accepted[endpoint]!;
  }
}

describe('a storm through the feed socket', () => {
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'flapd-feed-driver-'));
  });
  after(() => rm(dir, { recursive: true, force: true }));

  async function storm(
    name: string,
    flapd: FakeFlapd,
    windowed: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const socketPath = join(dir, name);
    const plan = makePlan({
      seed: 3,
      endpoints: 20,
      transitions: 5000,
      hot: 0.3,
      removals: 0.2,
      initial: null,
      expectedOf: expectedOfFeed,
    });
    const driver = new FeedDriver({ socketPath, endpoints: 20, windowed, patienceMs });
    await flapd.listen(socketPath);
    try {
      await driver.connect(signal);
      const told: number[] = [];
      const pace = makePace({ stepsPerSecond: 0, gate: () => Number.POSITIVE_INFINITY });
      await driver.run(plan, pace, { told: (step) => void told.push(step) }, signal);
      assert.equal(driver.taken, plan.length);
      assert.equal(new Set(told).size, plan.length, 'each step is told once, however often it was sent');
      assert.equal(told.length, plan.length);
      for (const [i, id] of driver.ids.entries())
        assert.deepEqual(flapd.acceptedOf(id.endpoint), plan.expected[i], `endpoint ${i}`);
    } finally {
      await driver.close();
      await flapd.close();
    }
  }

  it('is accepted once and in order', async () => {
    const flapd = new FakeFlapd(() => null);
    await storm('calm.sock', flapd, false, new AbortController().signal);
    assert.equal(flapd.deaths, 0);
  });

  it('is accepted once and in order though flapd dies again and again, before or after it has accepted something', async () => {
    const random = new Random(11);
    const flapd = new FakeFlapd(() => {
      if (!random.chance(0.01)) return null;
      return random.chance(0.5) ? 'before' : 'after';
    });
    await storm('chaos.sock', flapd, true, new AbortController().signal);
    assert.ok(flapd.deaths > 10, `it died ${flapd.deaths} times`);
  });

  it('says so where flapd dies and is not expected to', async () => {
    const random = new Random(5);
    const flapd = new FakeFlapd(() => (random.chance(0.01) ? 'after' : null));
    await assert.rejects(storm('death.sock', flapd, false, new AbortController().signal), {
      code: 'STORM_FEED',
    });
  });

  it('ends when it is told to', async () => {
    const stop = new AbortController();
    let statuses = 0;
    const flapd = new FakeFlapd(() => {
      if (++statuses === 100) stop.abort();
      return null;
    });
    await assert.rejects(storm('told.sock', flapd, true, stop.signal), { name: 'AbortError' });
  });

  it('says so where nobody listens', async () => {
    const driver = new FeedDriver({
      socketPath: join(dir, 'nobody'),
      endpoints: 1,
      windowed: false,
      patienceMs: 0,
    });
    await assert.rejects(driver.connect(new AbortController().signal), /flapd does not listen on/);
  });
});
