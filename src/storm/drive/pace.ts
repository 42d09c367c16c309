/** How fast a plan is carried out: at a set rate, or as fast as it goes; and never beyond a gate. */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';

export interface Pace {
  /**
   * Resolves when step `step` may be told; rejects when the storm is given up. Undefined: at once, and no turn of the
   * event loop is due.
   */
  wait(step: number, signal: AbortSignal): Promise<void> | undefined;
}

export interface PaceOptions {
  /** Steps a second; 0: as fast as it goes. */
  readonly stepsPerSecond: number;
  /** Steps below this number may be told now: a fault that is due holds the rest back until it has come. */
  readonly gate: () => number;
}

/** So many steps are told between two turns of the event loop, which has commits to see as well. */
const stepsPerTurn = 256;

export function makePace({ stepsPerSecond, gate }: PaceOptions): Pace {
  let startedAtMs: number | null = null;
  const dueAtMs = (step: number): number =>
    stepsPerSecond === 0 ? 0 : startedAtMs! + (step * 1000) / stepsPerSecond;

  return {
    wait(step, signal) {
      startedAtMs ??= performance.now();
      if (signal.aborted) return Promise.reject(signal.reason);
      if (step < gate() && dueAtMs(step) <= performance.now())
        return step % stepsPerTurn === 0 ? turn() : undefined;
      return (async () => {
        while (step >= gate() || dueAtMs(step) > performance.now()) {
          await sleep(1, undefined, { signal });
        }
      })();
    },
  };
}
