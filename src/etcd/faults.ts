/** Ways for a worker to fail on demand, so that tests can show that each is survived. Off unless FLAPD_FAULTS=1. */
import type { WorkerFault } from './task.js';

export function faultsAllowed(env: NodeJS.ProcessEnv): boolean {
  return env.FLAPD_FAULTS === '1';
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
