/** What goes wrong again and again is logged when it begins and when it is over. */
import { Episodes } from '../../telemetry/episode.js';
import type { Log } from '../../telemetry/log.js';

export class Saying {
  readonly #log: Log;
  readonly #episodes = new Episodes();

  constructor(log: Log) {
    this.#log = log;
  }

  once(what: string, fields: object, message: string): void {
    if (this.#episodes.happened(what, performance.now())) this.#log.warn(fields, message);
  }

  over(what: string): void {
    const episode = this.#episodes.over(what, performance.now());
    if (episode !== null) this.#log.info({ what, ...episode }, 'that is over');
  }
}
