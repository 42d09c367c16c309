/** From what was seen of a storm, and from etcd's own history, to its outcome. */
import type { EndpointId } from '../endpoints/id.js';
import { parseStatusValue, statusKey } from '../endpoints/key.js';
import { Status } from '../endpoints/status.js';
import type { Course } from './course.js';
import { watchAnswerBytesMax } from './observe/gateway.js';
import { readHistory } from './observe/history.js';
import { judgeSpacing } from './observe/spacing.js';
import type { StormReport } from './report.js';
import { durationOf } from './subject/settings.js';
import type { Subject } from './subject/subject.js';
import { type Verdict, verify } from './verify.js';

/** For reading the history: of a million events, and from an etcd that has only just come back. */
const historyDeadlineMs = 120_000;

type Production = Required<Pick<StormReport, 'watchAnswerBytesMax' | 'spacingMs'>>;

/** flapd must have ended. */
export async function conclude(
  course: Course,
  subject: Subject,
  ids: readonly EndpointId[],
): Promise<StormReport> {
  const { options, tracker, startedAtMs } = course;
  const problems = [...course.problems];
  const sent = tracker.toldAtMs.reduce((sum, told) => sum + told.length, 0);
  if (sent < options.transitions && !course.interrupted)
    problems.push(`only ${sent} of ${options.transitions} transitions were sent`);
  const verdict = await verdictOf(course, subject, ids, problems);
  const committed = verdict?.committed ?? tracker.committed;
  const production = options.production ? judgeProduction(course, subject, problems) : {};
  const seconds = Math.max(0, tracker.lastCommitAtMs - startedAtMs) / 1000;
  const latency = tracker.all.percentiles();
  const hot =
    options.hot === null ? {} : { hot: tracker.hot.percentiles(), others: tracker.others.percentiles() };
  return {
    via: options.via,
    endpoints: options.endpoints,
    seed: options.seed,
    production: options.production,
    sent,
    committed,
    lost: verdict?.lost ?? null,
    duplicated: verdict?.duplicated ?? null,
    reordered: verdict?.reordered ?? null,
    seconds: round(seconds, 3),
    transitionsPerSecond: seconds === 0 ? 0 : round(committed / seconds, 1),
    latencyMs: { p50: latency?.p50 ?? null, p99: latency?.p99 ?? null, ...hot },
    cpuMicrosPerTransition: committed === 0 ? null : round(course.usage.cpuMicros / committed, 1),
    rssMiB: round(course.usage.rssKiBMax / 1024, 1),
    confirmations: verdict?.confirmations ?? tracker.repeated,
    ...subject.faultsSoFar,
    ...production,
    interrupted: course.interrupted,
    problems,
  };
}

/** Null where the history cannot be read: it is a problem then. */
async function verdictOf(
  { tracker, plan, revision, initial }: Course,
  subject: Subject,
  ids: readonly EndpointId[],
  problems: string[],
): Promise<Verdict | null> {
  // What was never told is not expected.
  const transitions = new Map<string, readonly Status[]>(
    ids.map((id, i) => [
      statusKey(id, subject.where),
      plan.expected[i]!.slice(0, tracker.toldAtMs[i]!.length),
    ]),
  );
  try {
    const { client, etcd, where, confirms } = subject;
    const history = await readHistory(client, etcd.connection, where, revision + 1, historyDeadlineMs);
    const verdict = verify(
      { transitions, initial, confirmations: confirms },
      history.map(({ key, value, revision }) => ({
        key,
        status: value === null ? Status.removed : parseStatusValue(value),
        revision,
      })),
    );
    problems.push(...verdict.differences);
    const tooSoon = confirms ? tracker.repeatedTooSoon : 0;
    if (tooSoon > 0) problems.push(`${tooSoon} statuses were put again too soon for confirming writes`);
    return {
      ...verdict,
      duplicated: verdict.duplicated + tooSoon,
      confirmations: verdict.confirmations - tooSoon,
    };
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
    return null;
  }
}

function judgeProduction({ tracker, gateway }: Course, subject: Subject, problems: string[]): Production {
  const bytesMax = gateway?.bytesMax ?? 0;
  if (bytesMax === 0) problems.push("etcd's JSON gateway has shown no transaction");
  if (bytesMax > watchAnswerBytesMax)
    problems.push(
      `an answer of etcd's JSON gateway for one transaction had ${bytesMax} bytes: ${watchAnswerBytesMax} are allowed`,
    );
  const spacing = judgeSpacing(
    {
      endpointDelayMs: durationOf(subject.settings, 'limits.endpointDelay'),
      endpointCatchUpMs: durationOf(subject.settings, 'limits.endpointCatchUp'),
    },
    tracker.toldAtMs,
    tracker.committedAtMs,
  );
  if (spacing.violations > 0)
    problems.push(`${spacing.violations} transitions came too soon after the one before of their endpoint`);
  return { watchAnswerBytesMax: bytesMax, spacingMs: spacing };
}

function round(value: number, digits: number): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}
