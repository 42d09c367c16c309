/** `node build/test/sim/simulate.js [--seed N] [--seeds N] [--from N]`: runs seeds, stops at the first that fails. */
import { parseArgs } from 'node:util';
import { World } from './model/world.js';

/** Runs one seed; returns what is wrong: nothing, when all is well. */
export function simulate(seed: number): { problems: string[]; summary: string } {
  const world = new World(seed);
  let problems: string[];
  try {
    problems = world.run();
  } catch (error) {
    problems = [`thrown: ${error instanceof Error ? error.stack : String(error)}`];
  }
  return { problems, summary: JSON.stringify(world.plan) };
}

export function replayCommand(seed: number): string {
  return `scripts/sim --seed ${seed}`;
}

function main(): void {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string', default: '10000' },
      from: { type: 'string', default: '1' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(
      'scripts/sim [--seeds N] [--from N]   run N seeds (default 10000)\nscripts/sim --seed N                 replay one',
    );
    return;
  }
  const first = Number(values.seed ?? values.from);
  const count = values.seed === undefined ? Number(values.seeds) : 1;
  const startedAt = performance.now();
  for (let seed = first; seed < first + count; seed++) {
    const { problems, summary } = simulate(seed);
    if (problems.length > 0) {
      console.error(
        `seed ${seed} fails:\n  ${problems.slice(0, 20).join('\n  ')}\nplan: ${summary}\nreplay: ${replayCommand(seed)}`,
      );
      process.exitCode = 1;
      return;
    }
    if ((seed - first + 1) % 1000 === 0) console.error(`${seed - first + 1} of ${count} seeds`);
  }
  console.log(`${count} seeds, all well, in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
}

if (process.argv[1]?.endsWith('simulate.js')) main();
