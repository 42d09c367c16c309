import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Result } from '../result.js';
import { page, pictures } from './report.js';

/** The names stay, but for the day of the figures: a later run of a day takes the place of an earlier one. */
export function writeReport(folder: string, result: Result): void {
  const day = result.date.slice(0, 10);
  const files = {
    [`${day}.json`]: `${JSON.stringify(result, null, 2)}\n`,
    'report.html': page(result),
    ...pictures(result),
  };
  mkdirSync(folder, { recursive: true });
  for (const [file, content] of Object.entries(files)) writeFileSync(join(folder, file), content);
}
