/** Feeders can wait: they do where the queues, the journal or the disk cannot keep up with them. Pure. */

/** They wait while more than this is not yet durable ... */
const unsyncedHigh = 65_536;
/** ... until no more than this is. */
const unsyncedLow = 16_384;

export interface Load {
  readonly pending: number;
  readonly pendingMax: number;
  /** Transitions handed to the journal that are not yet durable. */
  readonly unsynced: number;
  /** Whether the journal takes what comes. */
  readonly accepting: boolean;
}

export class Throttle {
  #paused = false;

  /** 'pause' and 'resume' are told once; null: all stays as it is. */
  judge({ pending, pendingMax, unsynced, accepting }: Load): 'pause' | 'resume' | null {
    if (!this.#paused && (!accepting || unsynced > unsyncedHigh || pending > pendingMax * 0.9)) {
      this.#paused = true;
      return 'pause';
    }
    if (this.#paused && accepting && unsynced <= unsyncedLow && pending <= pendingMax * 0.8) {
      this.#paused = false;
      return 'resume';
    }
    return null;
  }
}
