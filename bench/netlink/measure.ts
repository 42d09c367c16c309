import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { FlapsOptions, FlapsResult } from './flaps.js';

const flaps = fileURLToPath(new URL('./flaps.js', import.meta.url));

/** Never throws: without the right to make a namespace there is one figure less, and the bench goes on. */
export async function measureFlaps(options: FlapsOptions): Promise<FlapsResult> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [flaps, JSON.stringify(options)]);
    return JSON.parse(stdout) as FlapsResult;
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    return { denied: (stderr || message).trim().split('\n').at(-1)! };
  }
}
