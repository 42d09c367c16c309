/** A flapd that is fed while something goes wrong, and what etcd's history must hold of it in the end. */
import assert from 'node:assert/strict';
import type { EndpointId } from '../../src/endpoints/id.js';
import { Status } from '../../src/endpoints/status.js';
import type { EtcdConnection } from '../../src/etcd/connection.js';
import { Flapd, type FlapdOptions } from './flapd.js';
import { Feeder, History, keyOf, vm } from './host.js';

/** Nothing is held back: no limits, no spacing, no confirming writes. */
export const unlimited = [
  '--set=limits.endpointDelay=0',
  '--set=limits.txnsPerSecond=0',
  '--set=reader.confirm=false',
  '--set=txn.watchBytesMax=0',
];

/** The statuses of an endpoint that was flapped so many times. */
export function alternating(count: number): string[] {
  return Array.from({ length: count }, (_, i) => (i % 2 === 0 ? 'up' : 'down'));
}

export interface CourseOptions extends Omit<FlapdOptions, 'etcd'> {
  /** Where flapd finds etcd; the history is read from `etcd` itself. */
  readonly through?: string;
  readonly endpoints?: number;
  /** Where the history begins; 1 unless said otherwise. */
  readonly fromRevision?: number;
}

/** A storm that leaves something of the machine to the fault as well. */
const roundPauseMs = 5;

export class Course {
  /** Those that have not ended: of tests that failed. */
  static readonly #open = new Set<Course>();
  readonly history: History;
  readonly #options: FlapdOptions;
  readonly #ids: readonly EndpointId[];
  #flapd: Flapd;
  #feeder: Feeder;
  #times = 0;

  private constructor(
    options: FlapdOptions,
    endpoints: number,
    history: History,
    flapd: Flapd,
    feeder: Feeder,
  ) {
    this.#options = options;
    this.#ids = Array.from({ length: endpoints }, (_, n) => vm(n));
    this.history = history;
    this.#flapd = flapd;
    this.#feeder = feeder;
  }

  /** The journal is in memory unless `args` say where. */
  static async start(
    etcd: string | EtcdConnection,
    { through, endpoints = 10, fromRevision = 1, args = [], ...options }: CourseOptions = {},
  ): Promise<Course> {
    const journal = args.some((arg) => arg.startsWith('--journal')) ? [] : ['--journal=memory'];
    const connection = typeof etcd === 'string' ? { endpoints: [etcd] } : etcd;
    const all = {
      ...options,
      etcd: through ?? connection.endpoints.join(','),
      args: ['--endpoints-from=feed', ...journal, ...unlimited, ...args],
    };
    const flapd = await Flapd.start(all);
    await flapd.says('the feed socket is open');
    const feeder = await Feeder.connect(flapd.feedSocket);
    const course = new Course(all, endpoints, new History(connection, fromRevision), flapd, feeder);
    Course.#open.add(course);
    return course;
  }

  /** After each test: what a failed one has left would keep the process of all tests from ending. */
  static async closeAll(): Promise<void> {
    for (const { flapd, history } of Course.#open) {
      await flapd.kill9();
      await history.close();
    }
    Course.#open.clear();
  }

  get flapd(): Flapd {
    return this.#flapd;
  }

  /** How often each endpoint was flapped. */
  get times(): number {
    return this.#times;
  }

  /** Each endpoint, so many times; all of it is accepted then. */
  async flap(times: number): Promise<void> {
    for (let i = 0; i < times; i++, this.#times++) {
      const status = this.#times % 2 === 0 ? Status.up : Status.down;
      for (const id of this.#ids) this.#feeder.send(id, status);
    }
    await this.#feeder.acknowledged();
  }

  /** Flaps on and on while something happens, with so long a pause after each round. */
  async during<Result>(what: () => Promise<Result>, pauseMs = roundPauseMs): Promise<Result> {
    let over = false;
    const happening = what().finally(() => {
      over = true;
    });
    happening.catch(() => undefined); // it is awaited below
    while (!over) {
      await this.flap(1);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    return happening;
  }

  /** Another flapd with the same arguments, for a test that does not let it get far. */
  launch(): Promise<Flapd> {
    return Flapd.start(this.#options);
  }

  /** Another life of flapd, after the first one has ended, with other arguments or another environment if given. */
  async again(changes: Partial<FlapdOptions> = {}): Promise<void> {
    this.#flapd = await Flapd.start({ ...this.#options, ...changes });
    await this.#flapd.says('the feed socket is open');
    this.#feeder = await Feeder.connect(this.#flapd.feedSocket);
  }

  /** Each transition is there once, in order. */
  async verify(deadlineMs = 60_000): Promise<void> {
    for (let n = 0; n < this.#ids.length; n++) {
      const statuses = await this.history.reaches(keyOf(n), this.#times, deadlineMs);
      assert.deepEqual(statuses, alternating(this.#times), `endpoint ${n}`);
    }
  }

  /** The fault is over: everything is there once, and a fresh transition gets there within five seconds. */
  async goesOn(): Promise<void> {
    await this.verify();
    await this.flap(1);
    await this.verify(5000);
  }

  /** ... and flapd ends as it should, and has added nothing. */
  async end(): Promise<void> {
    await this.goesOn();
    assert.equal(await this.#flapd.stop(), 0, this.#flapd.words);
    await this.verify();
    await this.history.close();
    Course.#open.delete(this);
  }
}
