import { Random as SeededRandom } from '../../../src/storm/plan/random.js';

/** The storms' generator, with what the simulation needs besides: it all hangs on this, so that a seed replays to the letter. */
export class Random extends SeededRandom {
  /** A whole number in [low, high], small ones much more often. */
  skewed(low: number, high: number): number {
    return low + Math.floor((high - low + 1) * this.next() ** 3);
  }
}
