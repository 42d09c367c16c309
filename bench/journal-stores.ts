/**
 * Which store for the journal? Segment files of our own beside LMDB and SQLite, on this machine's disk, each in a
 * process of its own (docs/decisions/001-journal-store.md has figures and the choice).
 *
 *     npm run bench:journal -- [--stores DIR] [--rate 50000] [--seconds 5] [--pending 1000000]
 *
 * LMDB and SQLite are no dependencies of flapd: DIR is a folder in which `npm install lmdb better-sqlite3` was done.
 * Without it only the segment files are measured.
 */
import { spawnSync } from 'node:child_process';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { EndpointIndex } from '../src/endpoints/id.js';
import { Source, type Status } from '../src/endpoints/status.js';
import { FileJournal } from '../src/journal/file-journal.js';

const { values } = parseArgs({
  options: {
    stores: { type: 'string' },
    rate: { type: 'string', default: '50000' },
    seconds: { type: 'string', default: '5' },
    pending: { type: 'string', default: '1000000' },
    dir: { type: 'string', default: tmpdir() },
    child: { type: 'string' },
    store: { type: 'string' },
    path: { type: 'string' },
  },
});

const endpoints = 1000;

/** What a journal's store must be able to do. */
interface Store {
  append(seq: number, endpoint: number, status: number, atUs: number): void;
  /** Resolves when all that was appended is on disk. */
  commit(): Promise<void>;
  forEach(callback: (seq: number, endpoint: number, status: number, atUs: number) => void): void;
  /** Whether it has said that something is missing. */
  readonly told?: boolean;
  close(): Promise<void>;
}

async function openSegmentFiles(path: string): Promise<Store> {
  const ignore = (): void => undefined;
  const journal = await FileJournal.open({
    directory: path,
    sync: 'always',
    syncIntervalMs: 100,
    retainBytes: 64 * 2 ** 20,
    bytesMax: 2 ** 30,
    listener: {
      durable: ignore,
      accepting: ignore,
      synced: ignore,
      failed: (error) => {
        throw error;
      },
    },
  });
  if (journal.recovered.lastSeq === 0)
    for (let i = 0; i < endpoints; i++) journal.nameEndpoint(i as EndpointIndex, `/endpoint/${i}`);
  return {
    append: (seq, endpoint, status, atUs) =>
      journal.append(seq, endpoint as EndpointIndex, status as Status, Source.felix, atUs, false),
    commit: () => journal.flush(),
    forEach: (callback) =>
      journal.recovered.forEach((seq, endpoint, status, _source, atUs) => {
        callback(seq, endpoint, status, atUs);
      }),
    told: journal.cutBytes > 0,
    close: () => journal.close(),
  };
}

function value(endpoint: number, status: number, atUs: number): Buffer {
  const bytes = Buffer.allocUnsafe(13);
  bytes.writeUInt32LE(endpoint, 0);
  bytes[4] = status;
  bytes.writeDoubleLE(atUs, 5);
  return bytes;
}

// biome-ignore lint/suspicious/noExplicitAny: packages that are not installed here have no types here.
function load(name: string): any {
  return createRequire(join(values.stores!, 'any.js'))(name);
}

async function openLmdb(path: string): Promise<Store> {
  const db = load('lmdb').open({
    path: join(path, 'data.mdb'),
    noSubdir: true,
    keyEncoding: 'uint32',
    encoding: 'binary',
  });
  return {
    append: (seq, endpoint, status, atUs) => void db.put(seq, value(endpoint, status, atUs)),
    commit: async () => {
      await db.flushed;
    },
    forEach: (callback) => {
      for (const { key, value: bytes } of db.getRange({}))
        callback(key, bytes.readUInt32LE(0), bytes[4], bytes.readDoubleLE(5));
    },
    close: () => db.close(),
  };
}

async function openSqlite(path: string): Promise<Store> {
  const Database = load('better-sqlite3');
  const db = new Database(join(path, 'data.db'));
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = FULL');
  db.exec(
    'create table if not exists journal (seq integer primary key, endpoint integer, status integer, at real)',
  );
  const insert = db.prepare('insert into journal values (?, ?, ?, ?)');
  let open = false;
  return {
    append: (seq, endpoint, status, atUs) => {
      if (!open) db.exec('begin');
      open = true;
      insert.run(seq, endpoint, status, atUs);
    },
    // It blocks its thread while the disk works; as in a worker thread, which costs a message each way more.
    commit: async () => {
      if (open) db.exec('commit');
      open = false;
    },
    forEach: (callback) => {
      for (const row of db.prepare('select * from journal order by seq').raw().iterate())
        callback(row[0], row[1], row[2], row[3]);
    },
    close: async () => db.close(),
  };
}

const stores = { segments: openSegmentFiles, lmdb: openLmdb, sqlite: openSqlite } as const;
type StoreName = keyof typeof stores;

function sizeOf(path: string): number {
  return readdirSync(path)
    .filter((name) => name !== 'reserve')
    .reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
}

const round = (value_: number, digits = 2): number => Number(value_.toFixed(digits));

/** Appends at a steady rate; one commit at a time, of all that came meanwhile. */
async function groupCommit(store: Store, path: string): Promise<object> {
  const rate = Number(values.rate);
  const total = rate * Number(values.seconds);
  const latenciesMs: number[] = [];
  let appendMs = 0;
  let appended = 0;
  let groups = 0;
  const startedAtMs = performance.now();
  while (appended < total) {
    const due = Math.min(total, Math.floor(((performance.now() - startedAtMs) * rate) / 1000));
    if (due === appended) {
      await new Promise((resolve) => setImmediate(resolve));
      continue;
    }
    const oldestDueMs = startedAtMs + (appended * 1000) / rate;
    const beforeMs = performance.now();
    for (; appended < due; appended++)
      store.append(appended + 1, appended % endpoints, (appended % 2) + 1, Date.now() * 1000);
    appendMs += performance.now() - beforeMs;
    await store.commit();
    latenciesMs.push(performance.now() - oldestDueMs);
    groups++;
  }
  const wallSeconds = (performance.now() - startedAtMs) / 1000;
  latenciesMs.sort((a, b) => a - b);
  return {
    perSecond: Math.round(total / wallSeconds),
    groups,
    appendNs: Math.round((appendMs * 1e6) / total),
    latencyMs: {
      p50: round(latenciesMs[Math.floor(groups * 0.5)]!),
      p99: round(latenciesMs[Math.floor(groups * 0.99)]!),
    },
    bytesPerTransition: Math.round(sizeOf(path) / total),
  };
}

async function write(store: Store, count: number): Promise<object> {
  let appendMs = 0;
  const startedAtMs = performance.now();
  for (let seq = 1; seq <= count; ) {
    const beforeMs = performance.now();
    for (let i = 0; i < 1000 && seq <= count; i++, seq++)
      store.append(seq, seq % endpoints, (seq % 2) + 1, seq * 1000);
    appendMs += performance.now() - beforeMs;
    await store.commit();
  }
  return {
    seconds: round((performance.now() - startedAtMs) / 1000),
    appendNs: Math.round((appendMs * 1e6) / count),
  };
}

async function start(name: StoreName, path: string): Promise<object> {
  const rssBefore = process.memoryUsage.rss();
  const startedAtMs = performance.now();
  const store = await stores[name](path);
  const openMs = performance.now() - startedAtMs;
  let count = 0;
  store.forEach(() => {
    count++;
  });
  const result = {
    count,
    openMs: Math.round(openMs),
    totalMs: Math.round(performance.now() - startedAtMs),
    rssMiB: Math.round((process.memoryUsage.rss() - rssBefore) / 2 ** 20),
  };
  await store.close();
  return result;
}

/** What comes back of 20,000 transitions: how many, and how many of them wrong. */
async function read(name: StoreName, path: string): Promise<object> {
  const store = await stores[name](path);
  let count = 0;
  let wrong = 0;
  store.forEach((seq, endpoint, status, atUs) => {
    count++;
    if (seq < 1 || endpoint !== seq % endpoints || status !== (seq % 2) + 1 || atUs !== seq * 1000) wrong++;
  });
  await store.close();
  return { count, wrong, told: store.told ?? false };
}

async function runChild(what: string, name: StoreName, path: string): Promise<object> {
  if (what === 'start') return start(name, path);
  if (what === 'read') return read(name, path);
  const store = await stores[name](path);
  const result =
    what === 'commit'
      ? await groupCommit(store, path)
      : await write(store, what === 'small' ? 20_000 : Number(values.pending));
  if (what !== 'small' || name === 'segments') await store.close();
  return result;
}

/** Runs one step in a process of its own; a crash is a result too. */
function step(what: string, name: StoreName, path: string): Record<string, unknown> {
  const { stdout, stderr, signal, status } = spawnSync(
    process.execPath,
    [
      fileURLToPath(import.meta.url),
      ...process.argv.slice(2),
      '--child',
      what,
      '--store',
      name,
      '--path',
      path,
    ],
    { encoding: 'utf8', timeout: 120_000 },
  );
  if (signal !== null) return { diedOf: signal };
  if (status === 0) return JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, unknown>;
  return { error: /^(?:\w*Error|.*Error:).*$/m.exec(stderr)?.[0].slice(0, 160) ?? `exit ${status}` };
}

function largestFile(path: string): string {
  const names = readdirSync(path).filter((name) => name !== 'reserve' && name !== 'lock');
  return join(path, names.sort((a, b) => statSync(join(path, b)).size - statSync(join(path, a)).size)[0]!);
}

function tally(outcomes: readonly Record<string, unknown>[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { count, wrong, told, error, diedOf } of outcomes) {
    const outcome =
      diedOf !== undefined
        ? `died of ${diedOf}`
        : error !== undefined
          ? 'refused'
          : Number(wrong) > 0
            ? 'WRONG VALUES'
            : count === 20_000
              ? 'whole'
              : told === true
                ? 'tail cut, and told'
                : 'silently fewer';
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

/** Damages the largest file in so many places, one at a time. */
function damaged(name: StoreName, path: string, kind: 'flip' | 'cut', times: number): Record<string, number> {
  const file = largestFile(path);
  const whole = readFileSync(file);
  const others = readdirSync(path)
    .map((one) => join(path, one))
    .filter((one) => one !== file)
    .map((one) => [one, readFileSync(one)] as const);
  const outcomes: Record<string, unknown>[] = [];
  for (let i = 0; i < times; i++) {
    writeFileSync(file, whole);
    for (const [one, content] of others) writeFileSync(one, content);
    if (kind === 'cut') {
      truncateSync(file, whole.length - 1 - i * 97);
    } else {
      const flipped = Buffer.from(whole);
      flipped[Math.floor((whole.length * (i + 0.5)) / times)]! ^= 0x10;
      writeFileSync(file, flipped);
    }
    outcomes.push(step('read', name, path));
  }
  writeFileSync(file, whole);
  return tally(outcomes);
}

if (values.child !== undefined) {
  console.log(JSON.stringify(await runChild(values.child, values.store as StoreName, values.path!)));
  process.exit(0);
}
for (const name of values.stores === undefined
  ? (['segments'] as const)
  : (['segments', 'lmdb', 'sqlite'] as const)) {
  const paths: string[] = [];
  const fresh = (): string => {
    paths.push(mkdtempSync(join(values.dir, 'flapd-stores-')));
    return paths.at(-1)!;
  };
  const pending = fresh();
  const small = fresh();
  const result: Record<string, unknown> = { store: name, groupCommit: step('commit', name, fresh()) };
  result.write = step('write', name, pending);
  result.start = step('start', name, pending);
  step('small', name, small);
  result.flippedBits = damaged(name, small, 'flip', 20);
  result.cutTails = damaged(name, small, 'cut', 10);
  console.log(JSON.stringify(result));
  for (const path of paths) rmSync(path, { recursive: true, force: true });
}
