/** A small file system of its own, to be filled up or made read-only. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class Tmpfs {
  readonly path: string;

  /** Throws where mounting is not allowed: a test that needs a full disk has not passed without one. */
  constructor(bytes: number) {
    this.path = mkdtempSync(join(tmpdir(), 'flapd-tmpfs-'));
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'flapd-test', this.path], {
        stdio: 'pipe',
      });
    } catch (cause) {
      rmdirSync(this.path);
      throw new Error('this test needs to mount a tmpfs: run it as root (CAP_SYS_ADMIN)', { cause });
    }
  }

  readOnly(): void {
    execFileSync('mount', ['-o', 'remount,ro', this.path]);
  }

  writable(): void {
    execFileSync('mount', ['-o', 'remount,rw', this.path]);
  }

  remove(): void {
    execFileSync('umount', ['-l', this.path]);
    rmdirSync(this.path);
  }
}
