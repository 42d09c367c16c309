/** Makes of the bytes that pass between Felix and its dataplane what flapd is to be told. Never throws. */
import { lookedAtBytesMax } from '../sources/felix/driver-messages.js';
import { decodeFromDataplane } from '../sources/felix/from-dataplane.js';
import { decodeToDataplane, encodeToDataplane } from '../sources/felix/to-dataplane.js';
import { DecodeError } from '../wire/protobuf.js';
import type { Ledger } from './ledger.js';
import { FramePeeker } from './peek.js';

export interface ObserverOptions {
  readonly ledger: Ledger;
  readonly nowUs: () => number;
  /** The ledger has something new, perhaps. */
  readonly onSeen: () => void;
  readonly log: { warn(fields: object, message: string): void; error(fields: object, message: string): void };
}

/** Of ToDataplane: in_sync; host and workload endpoints' updates and removals. */
const toDataplaneFields: ReadonlySet<number> = new Set([1, 9, 10, 11, 12]);
/** Of FromDataplane: the process's status; host and workload endpoints' statuses and removals. */
const fromDataplaneFields: ReadonlySet<number> = new Set([3, 4, 5, 6, 7]);

type Direction = 'Felix' | 'the dataplane';

export class Observer {
  /** What Felix writes. */
  readonly fromFelix: (chunk: Buffer) => void;
  /** What the dataplane writes. */
  readonly fromDataplane: (chunk: Buffer) => void;
  /** Frames that matter: taken, making no sense, too long to be looked at; and streams that were no frames. */
  readonly counts = { taken: 0, invalid: 0, tooLong: 0, lost: 0 };
  readonly #options: ObserverOptions;

  constructor(options: ObserverOptions) {
    this.#options = options;
    this.fromFelix = this.#watch('Felix', toDataplaneFields, (message) => this.#takeToDataplane(message));
    this.fromDataplane = this.#watch('the dataplane', fromDataplaneFields, (message) =>
      this.#takeFromDataplane(message),
    );
  }

  #watch(
    from: Direction,
    fields: ReadonlySet<number>,
    take: (message: Uint8Array) => void,
  ): (chunk: Buffer) => void {
    const { log, onSeen } = this.#options;
    let blind = false;
    const peeker = new FramePeeker({
      fields,
      frameBytesMax: lookedAtBytesMax,
      onMessage: (message) => this.#take(from, message, take),
      onTooLong: (field, length) => {
        if (this.counts.tooLong++ === 0)
          log.warn(
            { from, field, length },
            `a message about an endpoint is longer than ${lookedAtBytesMax} bytes: it passes, but flapd does not hear of it (said once)`,
          );
      },
      onLost: (length) => {
        this.counts.lost++;
        log.error(
          { from, length },
          'what passes is not framed as Felix does it: it passes as it is, but flapd hears no more of what is said in this direction',
        );
      },
    });
    return (chunk) => {
      if (blind) return;
      try {
        peeker.push(chunk);
        onSeen();
      } catch (error) {
        // Whatever is wrong here, Felix and its dataplane must not suffer from it.
        blind = true;
        this.counts.lost++;
        log.error(
          { from, error: error instanceof Error ? error.stack : String(error) },
          'a bug, please report it: flapd hears no more of what is said in this direction',
        );
      }
    };
  }

  #take(from: Direction, message: Uint8Array, take: (message: Uint8Array) => void): void {
    try {
      take(message);
      this.counts.taken++;
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      if (this.counts.invalid++ === 0)
        this.#options.log.warn(
          { from, why: error.message },
          'a message makes no sense: it passes, but flapd does not hear of it (said once)',
        );
    }
  }

  #takeToDataplane(message: Uint8Array): void {
    const { ledger, nowUs } = this.#options;
    const told = decodeToDataplane(message);
    const atUs = nowUs();
    switch (told.kind) {
      case 'inSync':
        ledger.see(null, { kind: 'inSync', atUs });
        break;
      case 'defined':
        ledger.see(told.definition.id, { kind: 'defined', content: encodeToDataplane(told)!, atUs });
        break;
      case 'removed':
        ledger.see(told.id, { kind: 'removed', atUs });
        break;
      case 'other': // begins with a field that matters, and ends with another
    }
  }

  #takeFromDataplane(message: Uint8Array): void {
    const { ledger, nowUs } = this.#options;
    const told = decodeFromDataplane(message);
    const atUs = nowUs();
    if (told.kind === 'status') ledger.see(told.id, { kind: 'told', status: told.status, atUs });
    else if (told.kind === 'processStatus')
      ledger.see(null, { kind: 'heartbeat', content: Uint8Array.prototype.slice.call(message), atUs });
  }
}
