/**
 * `flapd felix-driver`: between Felix and its real dataplane driver (docs/design.md, section 5.2).
 *
 *     Felix ── fd 3 ──► carrier ──► real driver
 *       ▲                  │ look
 *       │                  ▼
 *       │       observer ─► ledger ─► teller ══ driver socket ══► flapd
 *       │                  ▲
 *       │                  │ look
 *       └── fd 4 ─── carrier ◄──── real driver
 *
 * The bytes go their way whatever becomes of the rest: the observer never throws and never waits, the ledger is bounded,
 * the teller waits for flapd alone.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Carrier } from './carry.js';
import { Ledger, type LedgerLimits } from './ledger.js';
import { Observer } from './observer.js';
import { openFelixPipes } from './pipes.js';
import { type Ending, RealDriver } from './real-driver.js';
import { Teller } from './teller.js';

export interface FelixDriverOptions {
  readonly command: readonly [string, ...string[]];
  /** Where flapd listens. */
  readonly socketPath: string;
  readonly limits: LedgerLimits;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
    error(fields: object, message: string): void;
  };
}

export const defaultLimits: LedgerLimits = { endpointItemsMax: 10_000, bytesMax: 64 * 1024 * 1024 };

/** How long Felix may take for what its driver wrote last, without taking a byte of it. */
const lastBytesMs = 10_000;
/** What the driver wrote last has been read by then; what keeps its pipe open is something that it has left behind. */
const quietMs = 500;
/** How long flapd may take for what it was told last. */
const lastWordsMs = 500;

/** Resolves when the real driver has ended. Rejects with a FelixPipesError or a RealDriverError. */
export async function runFelixDriver(options: FelixDriverOptions): Promise<Ending> {
  const { command, socketPath, limits, log } = options;
  const { fromFelix, toFelix } = openFelixPipes();
  const driver = await RealDriver.start(command).catch((error: unknown) => {
    fromFelix.destroy();
    toFelix.destroy();
    throw error;
  });
  log.info({ driver: command[0], driverPid: driver.pid, socket: socketPath }, 'the real driver runs');

  const ledger = new Ledger(limits);
  const teller = new Teller({ socketPath, ledger, log });
  const observer = new Observer({
    ledger,
    nowUs: () => Date.now() * 1000,
    onSeen: () => teller.wake(),
    log,
  });
  new Carrier(fromFelix, driver.input, observer.fromFelix);
  const back = new Carrier(driver.output, toFelix, observer.fromDataplane);
  teller.start();

  const ending = await driver.ended;
  await lastBytes(back);
  // Felix sees its pipes end when the driver has: only then is there time for flapd.
  fromFelix.destroy();
  toFelix.destroy();
  const untold = await teller.stop(lastWordsMs);
  log.info({ ...ending, ...observer.counts, dropped: ledger.dropped, untold }, 'the real driver has ended');
  return ending;
}

/** Returns when Felix has what the driver wrote before it ended. */
async function lastBytes(carrier: Carrier): Promise<void> {
  let done = false;
  void carrier.done.then(() => {
    done = true;
  });
  let written = -1;
  while (!done && carrier.written !== written) {
    written = carrier.written;
    await Promise.race([carrier.done, sleep(carrier.underWay > 0 ? lastBytesMs : quietMs)]);
  }
}
