/** What systemd itself says of the unit, and whether flapd can live with what the unit refuses. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { read } from '../../support/documents.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { mainFile } from '../../support/flapd.js';
import { until } from '../../support/waiting.js';

let folder: string;
let etcd: Etcd;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'flapd-unit-'));
  etcd = await startEtcd();
});
after(async () => {
  await etcd?.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("systemd's unit", () => {
  it('is understood by systemd, with nothing to remark', () => {
    // node may be elsewhere on this machine, and flapd is not installed.
    const file = join(folder, 'flapd.service');
    writeFileSync(file, read('packaging/flapd.service').replace('/usr/bin/node', process.execPath));
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
  });

  it('exposes little: 2.0 of 10 at most', () => {
    const file = join(folder, 'flapd.service');
    writeFileSync(file, read('packaging/flapd.service'));
    const args = ['security', '--offline=yes', '--threshold=20', '--no-pager', file];
    const { status, stdout, stderr } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    assert.equal(status, 0, stdout.split('\n').slice(-3).join('\n') + stderr);
  });

  it('refuses no system call that flapd makes, with all its sockets and a group for the feed', async () => {
    const allowed = allowedCalls();
    assert.ok(allowed.has('openat'), 'the sets of system calls are read');
    assert.ok(!allowed.has('setuid') && !allowed.has('ptrace'), 'something is refused');
    const called = await callsOfFlapd();
    assert.ok(called.has('fdatasync') && called.has('chown'), [...called].join(' '));
    assert.deepEqual([...called].filter((call) => !allowed.has(call)).sort(), []);
  });
});

/** What SystemCallFilter= leaves, its lines one after another, as systemd.exec(5) has it. */
function allowedCalls(): Set<string> {
  const sets = systemCallSets();
  const allowed = resolve(sets, '@default');
  for (const [, line] of read('packaging/flapd.service').matchAll(/^SystemCallFilter=(.+)$/gm)) {
    const refuses = line!.startsWith('~');
    for (const name of line!.replace('~', '').split(' '))
      for (const call of resolve(sets, name)) refuses ? allowed.delete(call) : allowed.add(call);
  }
  return allowed;
}

function systemCallSets(): Map<string, string[]> {
  const text = execFileSync('systemd-analyze', ['syscall-filter', '--no-pager'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const sets = new Map<string, string[]>();
  let set: string[] = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('@')) {
      set = [];
      sets.set(line.trim(), set);
    } else if (/^ +[^# ]/.test(line)) set.push(line.trim());
  }
  return sets;
}

function resolve(sets: ReadonlyMap<string, readonly string[]>, name: string): Set<string> {
  if (!name.startsWith('@')) return new Set([name]);
  const members = sets.get(name);
  assert.ok(members !== undefined, `systemd knows no ${name}`);
  return new Set(members.flatMap((member) => [...resolve(sets, member)]));
}

/** The system calls of a flapd from its start to its end, its threads and the process that reads the kernel's news included. */
async function callsOfFlapd(): Promise<Set<string>> {
  const trace = join(folder, 'trace');
  const set = (name: string, value: string): string[] => ['--set', `${name}=${value}`];
  const child = spawn(
    'strace',
    [
      ...['-f', '-qq', '-o', trace, process.execPath, '--enable-source-maps', mainFile, 'run'],
      ...[
        '--etcd',
        etcd.endpoint,
        '--host',
        'compute-7',
        '--endpoints-from',
        'interfaces',
        '--http',
        '127.0.0.1:0',
      ],
      ...['--config', '/dev/null', '--felix-config', '/dev/null', '--journal', join(folder, 'journal')],
      ...set('feed.socket', join(folder, 'feed.sock')),
      ...set('feed.group', String(process.getgid!())),
      ...set('driver.socket', join(folder, 'driver.sock')),
      ...set('admin.socket', join(folder, 'admin.sock')),
      ...set('log.format', 'json'),
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data: Buffer) => {
      said += data.toString();
    });
  const ended = new Promise<number | null>((resolved, reject) => {
    child.once('error', reject);
    child.once('close', resolved);
  });
  await Promise.race([
    until(
      'flapd to have its claim and the interfaces',
      () => /"claimed: this/.test(said) && /interfaces have been read/.test(said),
    ),
    ended,
  ]);
  const pid = Number(/"pid":(\d+)/.exec(said)?.[1]);
  assert.ok(pid > 0, `flapd has not started: ${said}`);
  process.kill(pid, 'SIGTERM');
  assert.equal(await ended, 0, said);
  return new Set(
    [...readFileSync(trace, 'utf8').matchAll(/^\d+ +([a-z_0-9]+)\(/gm)].map(([, call]) => call!),
  );
}
