/**
 * Ways for a worker to fail on demand, so that tests can show that each is survived. Off unless FLAPD_FAULTS is set: to 1
 * where the test asks with its tasks, or to a file by which it asks the workers of a whole daemon.
 */
import { readFileSync, unlinkSync } from 'node:fs';
import type { WorkerFault } from './task.js';

export function faultsAllowed(env: NodeJS.ProcessEnv): boolean {
  return env.FLAPD_FAULTS === '1' || (env.FLAPD_FAULTS ?? '').startsWith('/');
}

/** The fault whose name a test has put into that file: the worker that reads it first has it. */
export function requestedFault(env: NodeJS.ProcessEnv): WorkerFault | undefined {
  const file = env.FLAPD_FAULTS ?? '';
  if (!file.startsWith('/')) return undefined;
  try {
    const fault = readFileSync(file, 'utf8').trim() as WorkerFault;
    unlinkSync(file); // throws where another worker was faster
    return fault;
  } catch {
    return undefined; // none is asked for
  }
}

export function fail(fault: WorkerFault): void {
  switch (fault) {
    case 'throw':
      throw new Error('a worker told to throw');
    case 'throwOutside':
      setImmediate(() => {
        throw new Error('a worker told to throw outside of its task');
      });
      return;
    case 'exit':
      process.exit(3);
      break;
    case 'hang':
      for (;;);
    case 'outOfMemory': {
      const hoard: number[][] = [];
      for (;;) hoard.push(new Array(100_000).fill(hoard.length));
    }
  }
}
