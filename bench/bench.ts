/**
 * `npm run bench`: flapd beside its baselines, on a real etcd that is started for it (docs/performance.md).
 *
 *     npm run bench -- [--quick] [--json] [--rounds N] [--out DIR]
 *
 * Progress goes to stderr. Exits 0 whatever the figures are.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measure, type Samples } from './macro/macro.js';
import { type Target, targets } from './macro/targets.js';
import { bars, page } from './report.js';

export interface Row {
  readonly name: string;
  /** The median of the rounds; of a target with a unit, the figure itself. */
  readonly ratio: number;
  readonly target: number;
  readonly ok: boolean;
  readonly spread: readonly [number, number];
  readonly unit?: string;
}

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    out: { type: 'string' },
  },
});
const rounds = Number(values.rounds ?? (values.quick ? 1 : 5));

function rowOf(samples: Samples, { name, target, more, unit }: Target): Row {
  const figures = [...(samples.get(name) ?? [])].sort((a, b) => a - b);
  const ratio = medianOf(figures);
  return {
    name,
    ratio: rounded(ratio),
    target,
    ok: more ? ratio >= target : ratio <= target,
    spread: [rounded(figures[0]!), rounded(figures.at(-1)!)],
    ...(unit !== undefined && { unit }),
  };
}

function medianOf(sorted: readonly number[]): number {
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function rounded(figure: number): number {
  return Number(figure.toPrecision(3));
}

const startedAt = new Date();
const samples = await measure({
  rounds,
  seconds: values.quick ? 3 : 8,
  transitions: values.quick ? 200_000 : 600_000,
  progress: (text) => console.error(text),
});
const rows = targets.map((target) => rowOf(samples, target));
const figures = Object.fromEntries(
  [...samples].map(([name, all]) => [name, rounded(medianOf([...all].sort((a, b) => a - b)))]),
);
const result = { date: startedAt.toISOString(), node: process.version, rounds, rows, figures };
if (values.out !== undefined) {
  mkdirSync(values.out, { recursive: true });
  const day = startedAt.toISOString().slice(0, 10);
  writeFileSync(join(values.out, `${day}.json`), `${JSON.stringify(result, null, 2)}\n`);
  for (const [file, svg] of Object.entries(bars(figures))) writeFileSync(join(values.out, file), svg);
  writeFileSync(join(values.out, 'report.html'), page(result));
}
if (values.json) console.log(JSON.stringify(result));
else
  for (const { name, ratio, target, ok, unit } of rows)
    console.log(
      `${ok ? 'ok   ' : 'SHORT'} ${name.padEnd(32)} ${String(ratio).padStart(8)} ${unit ?? ''} (target ${target})`,
    );
