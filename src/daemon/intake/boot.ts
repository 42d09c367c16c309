/**
 * Whether interface numbers and their carrier counters still mean what they meant to the last life of flapd: only
 * within one boot of the kernel and one network namespace. After a reboot a tap may have its old number and name, and
 * counters that began anew; what they count then did not happen while flapd was away.
 */
import { readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export class BootMark {
  readonly #file: string;
  readonly #now = `${read('/proc/sys/kernel/random/boot_id')} ${namespace()}\n`;

  /** In the journal's directory. */
  constructor(directory: string) {
    this.#file = join(directory, 'boot');
  }

  /** Whether the mark that was left there is of this boot and namespace. */
  get same(): boolean {
    return read(this.#file) === this.#now.trim();
  }

  /** To be called when what this boot's interfaces are is in the journal. */
  leave(): void {
    writeFileSync(this.#file, this.#now, { mode: 0o600 });
  }
}

function namespace(): string {
  try {
    return readlinkSync('/proc/self/ns/net');
  } catch {
    return 'unknown';
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}
