/**
 * `flapd storm` (docs/design.md, section 13), from beginning to end:
 *
 *     plan ─► etcd, flapd, driver start ─► etcd has the initial statuses: the storm's first revision
 *          ─► the driver tells ─ faults strike ─ the watch sees commits     until all are there, or nothing moves
 *          ─► flapd ends ─► etcd's own history, read from that revision ─► verdict
 *
 * plan/ is pure and seeded; drive/ brings it to flapd; subject/ is what is tested; observe/ sees what comes of it.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Status } from '../endpoints/status.js';
import { conclude } from './conclude.js';
import type { Course } from './course.js';
import type { Driver } from './drive/driver.js';
import { FeedDriver } from './drive/feed.js';
import { NetlinkDriver } from './drive/netlink.js';
import { makePace } from './drive/pace.js';
import { Faults } from './faults.js';
import { GatewayWatch } from './observe/gateway.js';
import { Observer } from './observe/observer.js';
import { Tracker } from './observe/tracker.js';
import type { StormListener, StormOptions } from './options.js';
import { type Expectation, expectedOfFeed, expectedOfInterface, type Known } from './plan/expectation.js';
import { planFaults } from './plan/faults.js';
import { makePlan, type Plan } from './plan/plan.js';
import type { StormReport } from './report.js';
import { durationOf } from './subject/settings.js';
import { Subject } from './subject/subject.js';

const pollMs = 10;
const progressMs = 200;
const deathGraceMs = 500;
const gatewayDeadlineMs = 10_000;
/** Beyond the time after which a confirming write is due, for it to arrive. */
const confirmationSlackMs = 1000;

export class StormError extends Error {
  readonly code = 'STORM';
}

/**
 * Makes a storm and says what came of it. An abort of `signal` ends it early, with a report of what there was.
 * Rejects where there was no storm at all: no etcd, no flapd, no interfaces.
 */
export async function runStorm(
  options: StormOptions,
  listener: StormListener,
  signal: AbortSignal,
): Promise<StormReport> {
  const storm = new Storm(options, listener, signal);
  try {
    return await storm.run();
  } finally {
    await storm.close();
  }
}

class Storm {
  readonly #options: StormOptions;
  readonly #listener: StormListener;
  readonly #user: AbortSignal;
  /** What makes going on senseless, such as flapd ending by itself. */
  readonly #trouble = new AbortController();
  readonly #signal: AbortSignal;
  readonly #initial: Known;
  readonly #expectedOf: Expectation;
  readonly #host: string;
  /** Why etcd or flapd ended by itself; null: neither has. */
  #death: string | null = null;
  #subject: Subject | null = null;
  #driver: Driver | null = null;
  #observer: Observer | null = null;
  #gateway: GatewayWatch | null = null;

  constructor(options: StormOptions, listener: StormListener, user: AbortSignal) {
    this.#options = options;
    this.#listener = listener;
    this.#user = user;
    this.#signal = AbortSignal.any([user, this.#trouble.signal]);
    // Interfaces are there, and up, before flapd is; an endpoint of a feed is first heard of in the storm.
    this.#initial = options.via === 'netlink' ? Status.up : null;
    this.#expectedOf = options.via === 'netlink' ? expectedOfInterface : expectedOfFeed;
    // Nobody else's keys, and none of an earlier storm.
    this.#host = `storm-${options.seed}-${randomBytes(4).toString('hex')}`;
  }

  async run(): Promise<StormReport> {
    const { seed, endpoints, transitions, hot, removals } = this.#options;
    const plan = makePlan({
      seed,
      endpoints,
      transitions,
      hot,
      removals,
      expectedOf: this.#expectedOf,
      initial: this.#initial,
    });
    const { subject, driver } = await this.#start();
    const tracker = new Tracker({
      expected: plan.expected,
      initial: this.#initial,
      hot: hot !== null,
      confirmAfterMs: subject.confirms
        ? durationOf(subject.settings, 'reader.confirmAfter')
        : Number.POSITIVE_INFINITY,
    });
    const observer = new Observer(subject.etcd.connection, subject.where, driver.ids);
    this.#observer = observer;
    const revision = await subject.settle(driver.ids, this.#initial, this.#signal);
    await observer.start(revision + 1, tracker, (error) => this.#trouble.abort(error));
    if (this.#options.production) await this.#openGateway(subject);
    this.#listener({ event: 'begins', host: this.#host, revision });

    const before = subject.daemon.usage();
    const startedAtMs = performance.now();
    await this.#rage(plan, tracker, subject, driver);
    const after = subject.daemon.usage();
    const problems = await this.#end(plan, subject, driver);
    const course: Course = {
      options: this.#options,
      plan,
      tracker,
      initial: this.#initial,
      revision,
      startedAtMs,
      usage: { cpuMicros: after.cpuMicros - before.cpuMicros, rssKiBMax: after.rssKiBMax },
      gateway: this.#gateway,
      interrupted: this.#user.aborted,
      problems,
    };
    this.#listener({ event: 'verifying' });
    return await conclude(course, subject, driver.ids);
  }

  async close(): Promise<void> {
    this.#trouble.abort(new StormError('the storm is over'));
    await this.#driver?.close();
    await this.#observer?.stop();
    await this.#gateway?.stop();
    await this.#subject?.close(this.#options.keep);
  }

  async #start(): Promise<{ subject: Subject; driver: Driver }> {
    const subject = await Subject.open(this.#options, this.#host, {
      died: (why) => {
        this.#death ??= why;
        this.#trouble.abort(new StormError(why));
      },
      started: (event, pid) => this.#listener({ event, pid }),
    });
    this.#subject = subject;
    const { via, endpoints, chaos, patienceMs } = this.#options;
    const driver =
      via === 'feed'
        ? new FeedDriver({ socketPath: subject.socketPath, endpoints, windowed: chaos, patienceMs })
        : new NetlinkDriver(endpoints);
    this.#driver = driver;
    await driver.prepare();
    subject.startDaemon();
    await driver.connect(this.#signal);
    return { subject, driver };
  }

  async #openGateway(subject: Subject): Promise<void> {
    this.#gateway = new GatewayWatch(subject.etcd.connection.endpoints[0]!, subject.statusPrefix);
    await this.#gateway.start(gatewayDeadlineMs);
  }

  /** Until every transition is in etcd, or there is no hope of that. Never rejects: the trouble says what it was. */
  async #rage(plan: Plan, tracker: Tracker, subject: Subject, driver: Driver): Promise<void> {
    const faults = this.#faults(plan, tracker, subject, driver);
    const { flapRate, transitions } = this.#options;
    const pace = makePace({
      stepsPerSecond: (flapRate * plan.length) / transitions,
      gate: () => faults.gate(),
    });
    const known: Known[] = new Array<Known>(this.#options.endpoints).fill(this.#initial);
    const told = (step: number, nowMs: number): void => {
      const endpoint = plan.endpoints[step]!;
      const status = plan.statuses[step] as Status;
      tracker.told(endpoint, this.#expectedOf(known[endpoint]!, status).length, nowMs);
      known[endpoint] = status;
    };
    const parts = [
      driver.run(plan, pace, { told }, this.#signal),
      faults.run(this.#signal),
      this.#untilCommitted(tracker, driver),
    ];
    for (const part of parts) part.catch((error: unknown) => this.#trouble.abort(error));
    await Promise.allSettled(parts);
    if (!this.#signal.aborted && this.#options.production) await this.#awaitConfirmations(tracker, subject);
  }

  #faults(plan: Plan, tracker: Tracker, subject: Subject, driver: Driver): Faults {
    const { seed, chaos, flapdKills, etcdKillAt, etcdStopAt, etcdStopForMs } = this.#options;
    return new Faults(
      planFaults({ seed, chaos, flapdKills, etcdKillAt, etcdStopAt, etcdStopForMs }),
      plan.length,
      {
        killFlapd: async () => {
          const { connections } = driver;
          await subject.killDaemon();
          while (connections !== null && driver.connections === connections)
            await sleep(pollMs, undefined, { signal: this.#signal });
        },
        killEtcd: (downMs) => subject.killEtcd(downMs),
        stopEtcd: (stoppedMs) => subject.etcd.freeze(stoppedMs),
      },
      // What is carried out on interfaces says nothing of flapd: it may not even have started again.
      () => (driver.connections === null ? tracker.committed / plan.transitions : driver.taken / plan.length),
      { fault: (fault, phase) => this.#listener({ event: 'fault', fault, phase }) },
    );
  }

  async #untilCommitted(tracker: Tracker, driver: Driver): Promise<void> {
    const { patienceMs, transitions } = this.#options;
    let moved = -1;
    let movedAtMs = performance.now();
    let shownAtMs = 0;
    while (!tracker.complete) {
      await sleep(pollMs, undefined, { signal: this.#signal });
      const nowMs = performance.now();
      if (tracker.committed + driver.taken !== moved) {
        moved = tracker.committed + driver.taken;
        movedAtMs = nowMs;
      } else if (nowMs - movedAtMs > patienceMs) {
        throw new StormError(
          `nothing has moved for ${patienceMs / 1000} s: ${transitions - tracker.committed} of ${transitions} transitions are missing in etcd`,
        );
      }
      if (nowMs - shownAtMs >= progressMs) {
        shownAtMs = nowMs;
        this.#listener({ event: 'progress', committed: tracker.committed, transitions });
      }
    }
    this.#listener({ event: 'progress', committed: tracker.committed, transitions });
  }

  /** They come some time after an endpoint's last transition; the verifier has to tell them from duplicates. */
  async #awaitConfirmations(tracker: Tracker, subject: Subject): Promise<void> {
    const { etcdKills, etcdStops } = subject.faultsSoFar;
    const name = etcdKills + etcdStops > 0 ? 'reader.confirmAfterOutage' : 'reader.confirmAfter';
    const untilMs = tracker.lastCommitAtMs + durationOf(subject.settings, name) + confirmationSlackMs;
    await sleep(Math.max(0, untilMs - performance.now()), undefined, { signal: this.#signal }).catch(
      () => undefined, // told to end early
    );
  }

  /** flapd ends: what it has not written by then, it will not write. Returns what went wrong so far. */
  async #end(plan: Plan, subject: Subject, driver: Driver): Promise<string[]> {
    const problems: string[] = [];
    if (this.#trouble.signal.aborted) {
      // That a connection broke is often heard before why.
      await subject.daemon.endsWithin(deathGraceMs);
      const { reason } = this.#trouble.signal;
      const why = reason instanceof Error ? reason.message : String(reason);
      if (this.#death !== null) problems.push(this.#death);
      if (why !== this.#death) problems.push(why);
    }
    await driver.close();
    const code = await subject.daemon.stop();
    const stopped = this.#signal.aborted;
    if (!stopped) {
      if (code !== 0)
        problems.push(
          `flapd ended with ${code === null ? 'SIGKILL, not by itself,' : `exit code ${code}`} after the storm`,
        );
      const wrong = driver.crossCheck(plan);
      if (wrong !== null) problems.push(wrong);
    }
    return this.#user.aborted ? [] : problems;
  }
}
