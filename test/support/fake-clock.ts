/** A wall clock for one process that a test can step, while its monotonic clock goes on as ever: libfaketime. */
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class FakeClock {
  readonly #folder = mkdtempSync(join(tmpdir(), 'flapd-clock-'));
  readonly #library = findLibrary();

  constructor() {
    this.offset(0);
  }

  /** For the process whose clock it is to be. */
  get env(): NodeJS.ProcessEnv {
    return {
      LD_PRELOAD: this.#library,
      FAKETIME_TIMESTAMP_FILE: join(this.#folder, 'offset'),
      // Read with each call, so that a step takes effect at once.
      FAKETIME_NO_CACHE: '1',
      DONT_FAKE_MONOTONIC: '1',
    };
  }

  /** So far from the real time. */
  offset(seconds: number): void {
    const next = join(this.#folder, 'next');
    writeFileSync(next, `${seconds < 0 ? '' : '+'}${seconds}\n`);
    renameSync(next, join(this.#folder, 'offset')); // never half written
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Where Debian puts it: /usr/lib/x86_64-linux-gnu/faketime. */
function findLibrary(): string {
  for (const folder of readdirSync('/usr/lib')) {
    const path = join('/usr/lib', folder, 'faketime', 'libfaketimeMT.so.1');
    if (existsSync(path)) return path;
  }
  throw new Error(
    'this test steps the clock with libfaketime (apt-get install faketime), and it is not there',
  );
}
