/**
 * A backlog, and how it goes: etcd stands still while transitions are accepted; then it goes on, and flapd writes what is
 * pending while transitions keep coming. Every 100 ms flapd is asked how many are pending.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Bed } from '../macro/bed.js';
import type { Subject } from '../macro/subject.js';
import type { CurveSizes } from '../sizes.js';
import type { Point } from './curves.js';

const endpoints = 1000;
const everyMs = 100;
/** With transitions coming all the time it is never quite none. */
const drainedAt = 1000;
const patienceMs = 120_000;

interface Sample {
  readonly atMs: number;
  readonly pending: number;
  readonly accepted: number;
}

/** x: seconds since etcd went on, negative before; y: pending. Accepted counts from when etcd stood still. */
export function drain(bed: Bed, { transitions, perSecond }: CurveSizes['drain']): Promise<Point[]> {
  return bed.subject(endpoints, {}, async (subject) => {
    await subject.storm(endpoints * 2);
    const samples: Sample[] = [await sample(subject)];
    const stop = new AbortController();
    const sampling = sampleInto(samples, subject, stop.signal);
    bed.etcd.kill('SIGSTOP');
    await subject.feed(transitions).finally(() => bed.etcd.kill('SIGCONT'));
    const wentOnAtMs = performance.now();
    const more = subject.feedSteadily(perSecond, stop.signal);
    const isDrained = (): boolean => {
      const last = samples.at(-1)!;
      return last.atMs > wentOnAtMs && last.pending < drainedAt;
    };
    while (!isDrained()) {
      if (performance.now() - wentOnAtMs > patienceMs)
        throw new Error(`the backlog is not gone after ${patienceMs} ms: ${samples.at(-1)!.pending} pending`);
      await delay(everyMs);
    }
    await delay(1000); // a curve that has arrived
    stop.abort();
    await Promise.all([sampling, more]);
    await subject.written();
    await subject.verify();
    const { accepted } = samples[0]!;
    const points = samples.map((seen) => ({
      x: round((seen.atMs - wentOnAtMs) / 1000),
      y: seen.pending,
      accepted: seen.accepted - accepted,
    }));
    const drained = points.find(({ x, y }) => x > 0 && y < drainedAt)!;
    bed.progress(
      `  ${transitions} pending and ${perSecond}/s more: drained ${drained.x.toFixed(1)} s after etcd went on`,
    );
    return points;
  });
}

async function sampleInto(samples: Sample[], subject: Subject, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    samples.push(await sample(subject));
    await delay(everyMs);
  }
}

async function sample({ flapd }: Subject): Promise<Sample> {
  const metrics = await flapd.metrics();
  return {
    atMs: performance.now(),
    pending: metrics.get('flapd_pending_transitions') ?? 0,
    accepted: metrics.get('flapd_transitions_accepted_total') ?? 0,
  };
}

function round(seconds: number): number {
  return Math.round(seconds * 100) / 100;
}
