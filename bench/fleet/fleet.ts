/**
 * `npm run bench:fleet`: hundreds of hosts against one etcd (docs/fleet.md).
 *
 *     npm run bench:fleet -- [--quick] [--json] [--hosts N] [--processes N] [--endpoints N] [--set NAME=VALUE] [--out DIR]
 *
 *     fleet.ts ─► phases.ts ─► processes.ts ─ipc─► hosts.ts ─► host.ts, as many as there are ─► etcd
 *                     └─────► meter.ts: etcd's own count of requests
 *
 * Progress goes to stderr. Exits 1 where a promise is broken (`invariants`), whatever the figures are.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { findEtcdBinary } from '../../src/etcd/embedded.js';
import { thisMachine } from '../machine.js';
import { type HistoryVerdict, judgeHistory } from './history.js';
import { type Measured, measure, type Phase } from './phases.js';
import { type Overrides, parseOverrides, settingsWith } from './settings.js';

const help = `Usage: npm run bench:fleet -- [options]

Simulates hosts that write to one etcd, which is started for it: all start at once, etcd is killed,
a tenth of them storms, all rest.

  --hosts N        how many hosts (300; with --quick 200)
  --processes N    processes that hold them (2)
  --endpoints N    endpoints of each host (20)
  --storm N        transitions a second of each host that storms (400)
  --calm N         transitions a second of each other host (0.5)
  --seconds N      length of the storm, and of each calm before (10; with --quick 6)
  --idle N         length of the rest (100; with --quick 20)
  --set NAME=VALUE a setting of every host that is a number, such as limits.txnsPerSecond=10
  --seed N         of what flaps when (1)
  --quick          within two minutes
  --json           the result as one object, on stdout
  --out DIR        writes fleet.json there
  --help           this`;

interface Invariant {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

const { values } = parseArgs({
  options: {
    hosts: { type: 'string' },
    processes: { type: 'string' },
    endpoints: { type: 'string' },
    storm: { type: 'string' },
    calm: { type: 'string' },
    seconds: { type: 'string' },
    idle: { type: 'string' },
    seed: { type: 'string' },
    set: { type: 'string', multiple: true, default: [] },
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

type NumberOption = 'hosts' | 'processes' | 'endpoints' | 'storm' | 'calm' | 'seconds' | 'idle' | 'seed';

function numberOf(name: NumberOption, standard: number): number {
  const given = values[name];
  const number = given === undefined ? standard : Number(given);
  const whole = name !== 'calm' && name !== 'storm';
  if (Number.isFinite(number) && number >= (whole ? 1 : 0) && (!whole || Number.isInteger(number)))
    return number;
  console.error(`--${name}: ${given} is no ${whole ? 'whole number from 1 on' : 'number from 0 on'}`);
  process.exit(64);
}

function overridesOf(texts: readonly string[]): Overrides {
  try {
    return parseOverrides(texts);
  } catch (error) {
    console.error((error as Error).message);
    process.exit(64);
  }
}

function invariantsOf({ phases, quiet }: Measured, history: HistoryVerdict): Invariant[] {
  const most = Math.max(...phases.map(({ hostTxnsPerSecondMax }) => hostTxnsPerSecondMax));
  const warm = phases.find(({ name }) => name === 'warm start')!;
  const sum = (of: (phase: Phase) => number) => phases.reduce((total, phase) => total + of(phase), 0);
  const { lost, duplicated, reordered, transitions } = history;
  return [
    {
      name: 'every transition once and in order',
      ok: lost + duplicated + reordered === 0 && transitions > 0,
      detail: `${transitions} transitions: ${lost} lost, ${duplicated} duplicated, ${reordered} reordered`,
    },
    {
      name: 'no host exceeds its limit',
      ok: limits.txnsPerSecond === 0 || most <= limits.burst + limits.txnsPerSecond,
      detail: `${most} transactions in a second at most, ${limits.burst + limits.txnsPerSecond} allowed`,
    },
    {
      name: 'a start writes no status that etcd has',
      ok: warm.committed === 0,
      detail: `${warm.committed} written`,
    },
    { name: 'nobody is starved', ok: quiet, detail: quiet ? 'all were through in the end' : 'some were not' },
    {
      name: 'no host takes another for its rival',
      ok: sum(({ fenced }) => fenced) + sum(({ foreign }) => foreign) === 0,
      detail: `${sum(({ fenced }) => fenced)} fenced, ${sum(({ foreign }) => foreign)} foreign writes`,
    },
  ];
}

/** To three digits: more would be noise. */
function rounded(_name: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(3)) : value;
}

function print(phases: readonly Phase[], invariants: readonly Invariant[]): void {
  const row = (cells: readonly (string | number)[]) =>
    console.log(
      cells.map((cell, i) => (i === 0 ? String(cell).padEnd(14) : String(cell).padStart(12))).join(''),
    );
  row([
    'phase',
    'requests',
    'mean/s',
    'peak/s',
    'etcd cores',
    'quiet s',
    'calm p50 ms',
    'calm p99 ms',
    'host txn/s',
  ]);
  for (const { name, requests, quietSeconds, calm, hostTxnsPerSecondMax } of phases)
    row([
      name,
      requests.total,
      Math.round(requests.perSecondMean),
      Math.round(requests.perSecondPeak),
      requests.cpuCores.toFixed(2),
      quietSeconds?.toFixed(1) ?? '',
      calm.p50Ms.toFixed(1),
      calm.p99Ms.toFixed(1),
      hostTxnsPerSecondMax,
    ]);
  for (const { name, ok, detail } of invariants)
    console.log(`${ok ? 'ok    ' : 'BROKEN'} ${name}: ${detail}`);
}

if (values.help) {
  console.log(help);
  process.exit(0);
}
const quick = values.quick;
const seconds = numberOf('seconds', quick ? 6 : 10);
const overrides = overridesOf(values.set);
const settings = settingsWith(overrides, { host: 'any', etcd: '' });
const limits = { txnsPerSecond: settings['limits.txnsPerSecond'], burst: settings['limits.burst'] };
const etcdBinary = findEtcdBinary();
const shape = {
  hosts: numberOf('hosts', quick ? 200 : 300),
  processes: numberOf('processes', 2),
  endpoints: numberOf('endpoints', 20),
  seed: numberOf('seed', 1),
  overrides,
  stormPerSecond: numberOf('storm', 400),
  calmPerSecond: numberOf('calm', 0.5),
  stormSeconds: seconds,
  calmSeconds: seconds,
  idleSeconds: numberOf('idle', quick ? 20 : 100),
  downSeconds: 2,
};
const folder = mkdtempSync(join(tmpdir(), 'flapd-fleet-'));
let history: HistoryVerdict | null = null;
try {
  const measured = await measure(
    {
      ...shape,
      etcdBinary,
      dataDir: join(folder, 'etcd'),
      progress: (text) => console.error(text),
    },
    async (etcd, fleet) => {
      console.error('reading the history …');
      history = await judgeHistory(etcd, await fleet.history());
    },
  );
  const invariants = invariantsOf(measured, history!);
  const result = {
    machine: thisMachine(),
    ...shape,
    limits,
    phases: measured.phases,
    atRest: measured.atRest,
    history,
    invariants,
  };
  if (values.out !== undefined) {
    mkdirSync(values.out, { recursive: true });
    writeFileSync(join(values.out, 'fleet.json'), `${JSON.stringify(result, rounded, 2)}\n`);
  }
  if (values.json) console.log(JSON.stringify(result, rounded));
  else print(measured.phases, invariants);
  if (invariants.some(({ ok }) => !ok)) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
