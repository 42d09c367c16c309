/** `npm run bench`: flapd beside its baselines, on a real etcd that is started for it (docs/performance.md). */
import { parseArgs } from 'node:util';
import { measureCurves } from './curves/curves.js';
import { thisMachine } from './machine.js';
import { Bed } from './macro/bed.js';
import { measureTargets } from './macro/macro.js';
import { writeReport } from './report/write.js';
import { figuresOf, type Result, type Row, roundedCurves, rowsOf } from './result.js';
import { full, quick, type Sizes, scaled } from './sizes.js';

const usage = `npm run bench -- [--quick] [--json] [--rounds N] [--scale S] [--out DIR]

Measures flapd beside its baselines, in turn, on one etcd, and says which targets are reached (docs/performance.md).
About a quarter of an hour. Progress goes to stderr. Exits 0 whatever the figures are.

  --quick     one round and fewer points on each curve: within three minutes
  --json      print one object instead of a table: rows {name, ratio, target, ok}, figures, curves
  --rounds N  how often each target is measured: the median counts (standard: 5)
  --scale S   only this part of the work, 0.01 to 1: to see that everything works; the figures mean little then
  --out DIR   write DATE.json, the pictures (SVG) and report.html there

Interfaces are flapped in a network namespace, which takes root; without, that one target is not measured.
FLAPD_ETCD=/path/to/etcd names the etcd.
`;

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    scale: { type: 'string', default: '1' },
    out: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  },
});

function sizesAsked(): Sizes {
  const sizes = values.quick ? quick : full;
  const rounds = values.rounds === undefined ? sizes.rounds : Number(values.rounds);
  const scale = Number(values.scale);
  if (!(Number.isInteger(rounds) && rounds >= 1)) throw new Error('--rounds is a whole number from 1 on');
  if (!(scale >= 0.01 && scale <= 1)) throw new Error('--scale is a number from 0.01 to 1');
  return { ...scaled(sizes, scale), rounds };
}

async function measure(sizes: Sizes): Promise<Result> {
  const startedAt = new Date();
  const startedAtMs = performance.now();
  const { samples, curves } = await Bed.with(
    (text) => console.error(text),
    async (bed) => {
      const samples = await measureTargets(bed, sizes);
      bed.progress('curves');
      return { samples, curves: await measureCurves(bed, sizes.curves) };
    },
  );
  return {
    date: startedAt.toISOString(),
    machine: thisMachine(),
    rounds: sizes.rounds,
    scale: Number(values.scale),
    seconds: Math.round((performance.now() - startedAtMs) / 1000),
    rows: rowsOf(samples),
    figures: figuresOf(samples),
    curves: roundedCurves(curves),
  };
}

function line({ name, ratio, target, ok, unit, why }: Row): string {
  const figure = ratio === null ? '-' : String(ratio);
  const reason = why === undefined ? '' : `: ${why}`;
  return `${ok ? 'ok   ' : 'SHORT'} ${name.padEnd(32)} ${figure.padStart(8)} ${unit ?? ''} (target ${target})${reason}`;
}

if (values.help) {
  process.stdout.write(usage);
} else {
  const result = await measure(sizesAsked());
  if (values.out !== undefined) writeReport(values.out, result);
  console.log(values.json ? JSON.stringify(result) : result.rows.map(line).join('\n'));
}
