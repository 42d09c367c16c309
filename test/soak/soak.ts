/**
 * Random faults for as long as you like: scripts/soak [--minutes N] [--seed S]. Rounds of `flapd storm`, and of a network
 * that is cut, one after the other (plan.ts); each is verified in the history of etcd. Exit code 1 where one has failed.
 */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { StormProcess } from '../support/storm.js';
import { runPartitions } from './partitions.js';
import { type Pest, planSoak, type Round } from './plan.js';

const progressEveryMs = 10_000;
const pestEveryMs = 2000;

interface Outcome {
  readonly transitions: number;
  readonly flapdKills: number;
  readonly etcdFaults: number;
  readonly pests: number;
  /** Null: every transition is in etcd, once, in order. */
  readonly problem: string | null;
}

const folder = mkdtempSync(join(tmpdir(), 'flapd-soak-'));
const faultFile = join(folder, 'fault');
/** What the round under way has come to, for the progress. */
let position = '';

async function runStorm(args: readonly string[], pests: readonly Pest[]): Promise<Outcome> {
  const storm = new StormProcess(...args);
  let [over, done] = [false, 0];
  const ended = storm.ended.finally(() => {
    over = true;
  });
  const pestering = (async () => {
    if (pests.length === 0) return;
    await storm.event('begins');
    for (; !over; done++) {
      await carryOut(pests[done % pests.length]!, (await storm.event('flapd')).pid);
      await sleep(pestEveryMs);
    }
  })().catch(() => undefined); // the storm is over: its own report counts
  const timer = setInterval(() => {
    const progress = storm.events.findLast((event) => event.event === 'progress');
    if (progress?.event === 'progress')
      position = `${progress.committed} of ${progress.transitions} transitions`;
  }, 1000);
  const { code, report, errors } = await ended;
  clearInterval(timer);
  await pestering;
  if (report === null)
    return { transitions: 0, flapdKills: 0, etcdFaults: 0, pests: done, problem: `${code}: ${errors}` };
  const { committed, lost, duplicated, reordered, flapdKills, etcdKills, etcdStops, problems } = report;
  const problem =
    code === 0 ? null : `exit code ${code}, ${JSON.stringify({ lost, duplicated, reordered, problems })}`;
  return { transitions: committed, flapdKills, etcdFaults: etcdKills + etcdStops, pests: done, problem };
}

async function carryOut(pest: Pest, pid: number): Promise<void> {
  switch (pest.kind) {
    case 'hangup':
      process.kill(pid, 'SIGHUP');
      return;
    case 'freeze':
      process.kill(pid, 'SIGSTOP');
      await sleep(pest.ms);
      process.kill(pid, 'SIGCONT');
      return;
    case 'worker':
      writeFileSync(join(folder, 'next'), pest.fault);
      renameSync(join(folder, 'next'), faultFile);
  }
}

async function run(round: Round): Promise<Outcome> {
  position = '';
  if (round.kind === 'storm') return runStorm(round.args, round.pests);
  const none = { flapdKills: 0, etcdFaults: 0 };
  try {
    const transitions = await runPartitions(round.seed, round.cuts);
    return { ...none, transitions, pests: round.cuts, problem: null };
  } catch (error) {
    return { ...none, transitions: 0, pests: round.cuts, problem: String(error) };
  }
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
  },
});
const [minutes, seed] = [Number(values.minutes), Number(values.seed)];
if (!(minutes > 0) || !Number.isInteger(seed)) {
  console.error('usage: scripts/soak [--minutes N] [--seed S]');
  process.exit(64);
}
process.env.FLAPD_FAULTS = faultFile;
const root = process.getuid?.() === 0;
console.log(
  `soak: ${minutes} minutes, seed ${seed}${root ? '' : '; not root: without interfaces and partitions'}`,
);
const beganAtMs = performance.now();
const elapsed = (): string => `${Math.round((performance.now() - beganAtMs) / 1000)} s`;
const outcomes: Outcome[] = [];
let name = '';
const timer = setInterval(
  () => console.log(`${elapsed()}: round ${outcomes.length + 1}, ${name}: ${position}`),
  progressEveryMs,
);
try {
  for (const round of planSoak(seed, root)) {
    if (performance.now() - beganAtMs > minutes * 60_000) break;
    name = round.name;
    const outcome = await run(round);
    outcomes.push(outcome);
    const what = outcome.problem ?? `${outcome.transitions} transitions, each once and in order`;
    console.log(`${elapsed()}: round ${outcomes.length}, ${name}: ${what}`);
    if (outcome.problem !== null && round.kind === 'storm')
      console.log(`  flapd storm ${round.args.join(' ')}`);
  }
} finally {
  clearInterval(timer);
  rmSync(folder, { recursive: true, force: true });
}
const sum = (of: (outcome: Outcome) => number): number => outcomes.reduce((total, one) => total + of(one), 0);
const failed = sum(({ problem }) => (problem === null ? 0 : 1));
console.log(
  `${outcomes.length} rounds in ${elapsed()}, ${failed} of them failed: ${sum((one) => one.transitions)} transitions; ` +
    `flapd killed ${sum((one) => one.flapdKills)} times, etcd killed or frozen ${sum((one) => one.etcdFaults)} times, ` +
    `${sum((one) => one.pests)} other faults (seed ${seed})`,
);
process.exitCode = failed === 0 ? 0 : 1;
