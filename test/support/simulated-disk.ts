/**
 * A directory in memory that forgets like a disk does: what was not forced to it may be gone after a power cut, and is
 * then gone in pieces, in any order. Seeded, so that a run can be had again.
 *
 * Content: each write since the last datasync is kept, lost, zeroed, or torn at a sector, by itself.
 * Names: each creation, rename and removal since the last sync of the directory is kept or lost, in their order: the
 * ones after a lost one are lost as well (journalling file systems keep the order of metadata).
 */
import type { JournalDirectory, JournalFile } from '../../src/journal/directory.js';

const sectorBytes = 512;

interface Write {
  readonly position: number;
  /** Null: cut to `position`. */
  readonly bytes: Buffer | null;
}

class Inode {
  /** As on disk. */
  stable: Buffer = Buffer.alloc(0);
  unsynced: Write[] = [];

  get content(): Buffer {
    return this.unsynced.reduce(applied, this.stable);
  }

  datasync(): void {
    this.stable = this.content;
    this.unsynced = [];
  }

  powerCut(random: () => number): void {
    this.stable = this.unsynced.reduce(
      (content, write) => applied(content, damagedBy(write, random)),
      this.stable,
    );
    this.unsynced = [];
  }
}

function applied(content: Buffer, { position, bytes }: Write): Buffer {
  if (bytes === null) return Buffer.from(content.subarray(0, position));
  const longer = Buffer.alloc(Math.max(content.length, position + bytes.length));
  content.copy(longer);
  bytes.copy(longer, position);
  return longer;
}

function damagedBy(write: Write, random: () => number): Write {
  if (write.bytes === null)
    return random() < 0.5 ? write : { position: write.position, bytes: Buffer.alloc(0) };
  const fate = random();
  if (fate < 0.3) return write;
  if (fate < 0.5) return { position: write.position, bytes: Buffer.alloc(0) };
  if (fate < 0.7) return { position: write.position, bytes: Buffer.alloc(write.bytes.length) };
  const torn = Buffer.from(write.bytes);
  for (let at = 0; at < torn.length; at += sectorBytes)
    if (random() < 0.5) torn.fill(0, at, Math.min(at + sectorBytes, torn.length));
  return { position: write.position, bytes: torn.subarray(0, Math.ceil(random() * torn.length)) };
}

type NameChange =
  | { readonly kind: 'link'; readonly name: string; readonly inode: Inode }
  | { readonly kind: 'rename'; readonly from: string; readonly to: string }
  | { readonly kind: 'remove'; readonly name: string };

export class SimulatedDisk implements JournalDirectory {
  readonly path = '(simulated)';
  #names = new Map<string, Inode>();
  #stableNames = new Map<string, Inode>();
  #unsynced: NameChange[] = [];
  readonly #random: () => number;
  /** Its size; less than what is on it: nothing more can be written. */
  capacityBytes = Number.POSITIVE_INFINITY;
  /** Called before each operation; what it throws is the operation's error. Throwing for ever: the process is dead. */
  before: (operation: string) => void = () => undefined;

  constructor(random: () => number) {
    this.#random = random;
  }

  list(): string[] {
    return [...this.#names.keys()];
  }

  read(name: string): Buffer {
    return Buffer.from(this.#inode(name).content);
  }

  /** Writes a file as it is to be, on disk. */
  put(name: string, content: Buffer): void {
    const inode = new Inode();
    inode.stable = Buffer.from(content);
    this.#names.set(name, inode);
    this.#stableNames.set(name, inode);
  }

  async open(name: string, create: boolean): Promise<JournalFile> {
    await this.#operation('open');
    if (create) this.#change({ kind: 'link', name, inode: new Inode() });
    return new SimulatedFile(this, this.#inode(name));
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#operation('rename');
    this.#inode(from);
    this.#change({ kind: 'rename', from, to });
  }

  async remove(name: string): Promise<void> {
    await this.#operation('remove');
    if (this.#names.has(name)) this.#change({ kind: 'remove', name });
  }

  async sync(): Promise<void> {
    await this.#operation('sync');
    this.#stableNames = new Map(this.#names);
    this.#unsynced = [];
  }

  async freeBytes(): Promise<number> {
    return this.capacityBytes === Number.POSITIVE_INFINITY
      ? this.capacityBytes
      : Math.max(0, this.capacityBytes - this.#usedBytes());
  }

  /** The same disk after the power has come back. */
  powerCut(): SimulatedDisk {
    const after = new SimulatedDisk(this.#random);
    after.capacityBytes = this.capacityBytes;
    const names = new Map(this.#stableNames);
    for (const change of this.#unsynced) {
      if (this.#random() < 0.3) break;
      changeNames(names, change);
    }
    for (const inode of new Set(names.values())) inode.powerCut(this.#random);
    after.#names = names;
    after.#stableNames = new Map(names);
    return after;
  }

  /** The same disk after the process, and it alone, has died: all that it wrote is there. */
  processDeath(): SimulatedDisk {
    const after = new SimulatedDisk(this.#random);
    after.capacityBytes = this.capacityBytes;
    after.#names = new Map(this.#names);
    after.#stableNames = new Map(this.#stableNames);
    after.#unsynced = [...this.#unsynced];
    return after;
  }

  async write(inode: Inode, bytes: Uint8Array, position: number): Promise<void> {
    await this.#operation('write');
    const growth = Math.max(0, position + bytes.length - inode.content.length);
    const room =
      this.capacityBytes === Number.POSITIVE_INFINITY
        ? this.capacityBytes
        : Math.max(0, this.capacityBytes - this.#usedBytes());
    const fits = growth <= room ? bytes.length : Math.max(0, bytes.length - (growth - room));
    inode.unsynced.push({ position, bytes: Buffer.from(bytes.subarray(0, fits)) });
    if (fits < bytes.length)
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  }

  async truncate(inode: Inode, length: number): Promise<void> {
    await this.#operation('truncate');
    inode.unsynced.push({ position: length, bytes: null });
  }

  async datasync(inode: Inode): Promise<void> {
    await this.#operation('datasync');
    inode.datasync();
  }

  #usedBytes(): number {
    let bytes = 0;
    for (const inode of this.#names.values()) bytes += inode.content.length;
    return bytes;
  }

  /** Ends in another turn of the event loop, as all that a thread pool does. */
  async #operation(operation: string): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.before(operation);
  }

  #inode(name: string): Inode {
    const inode = this.#names.get(name);
    if (inode === undefined) throw Object.assign(new Error(`ENOENT: ${name}`), { code: 'ENOENT' });
    return inode;
  }

  #change(change: NameChange): void {
    changeNames(this.#names, change);
    this.#unsynced.push(change);
  }
}

function changeNames(names: Map<string, Inode>, change: NameChange): void {
  if (change.kind === 'link') {
    names.set(change.name, change.inode);
  } else if (change.kind === 'remove') {
    names.delete(change.name);
  } else {
    const inode = names.get(change.from);
    if (inode === undefined) return;
    names.delete(change.from);
    names.set(change.to, inode);
  }
}

class SimulatedFile implements JournalFile {
  readonly #disk: SimulatedDisk;
  readonly #inode: Inode;

  constructor(disk: SimulatedDisk, inode: Inode) {
    this.#disk = disk;
    this.#inode = inode;
  }

  write(bytes: Uint8Array, position: number): Promise<void> {
    return this.#disk.write(this.#inode, bytes, position);
  }

  truncate(length: number): Promise<void> {
    return this.#disk.truncate(this.#inode, length);
  }

  datasync(): Promise<void> {
    return this.#disk.datasync(this.#inode);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
