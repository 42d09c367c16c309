/**
 * The journal's directory: all that the journal wants of a file system, so that tests can put one in its place that
 * loses what was not forced to disk (test/support/simulated-disk.ts).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { type FileHandle, open, rename, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';

export interface JournalFile {
  /** All of it, or it rejects; what is there then is undefined. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  truncate(length: number): Promise<void>;
  /** Forces content and length to disk. */
  datasync(): Promise<void>;
  close(): Promise<void>;
}

export interface JournalDirectory {
  readonly path: string;
  list(): string[];
  read(name: string): Buffer;
  /** For reading and writing; `create`: made, or emptied. */
  open(name: string, create: boolean): Promise<JournalFile>;
  rename(from: string, to: string): Promise<void>;
  /** Not there is as good. */
  remove(name: string): Promise<void>;
  /** Forces what was created, renamed and removed to disk. */
  sync(): Promise<void>;
  /** Bytes that may still be written. */
  freeBytes(): Promise<number>;
}

export class RealDirectory implements JournalDirectory {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  list(): string[] {
    return readdirSync(this.path);
  }

  read(name: string): Buffer {
    return readFileSync(join(this.path, name));
  }

  async open(name: string, create: boolean): Promise<JournalFile> {
    return new RealFile(await open(join(this.path, name), create ? 'w+' : 'r+', 0o600));
  }

  rename(from: string, to: string): Promise<void> {
    return rename(join(this.path, from), join(this.path, to));
  }

  remove(name: string): Promise<void> {
    return rm(join(this.path, name), { force: true });
  }

  async sync(): Promise<void> {
    const handle = await open(this.path, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  async freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.path);
    return bavail * bsize;
  }
}

class RealFile implements JournalFile {
  readonly #handle: FileHandle;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      done += (await this.#handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
    }
  }

  truncate(length: number): Promise<void> {
    return this.#handle.truncate(length);
  }

  datasync(): Promise<void> {
    return this.#handle.datasync();
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}
