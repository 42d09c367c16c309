/** `flapd journal` and `flapd history`, as their users run them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { EndpointIndex } from '../../../src/endpoints/id.js';
import { Source, Status } from '../../../src/endpoints/status.js';
import { segmentName } from '../../../src/journal/format.js';
import { scanBytes } from '../../../src/journal/segment.js';
import { mainFile } from '../../support/flapd.js';
import { openJournal, temporaryFolder } from '../../support/journal.js';

const keyOf = (workload: string, port: string): string =>
  `/calico/felix/v2/no-region/host/h1/workload/openstack/openstack%2f${workload}/endpoint/${port}`;

function flapd(...args: string[]): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [mainFile, ...args], { encoding: 'utf8' });
  return { code: status, stdout, stderr };
}

/** Two ports, four transitions; the first two are committed. */
async function fill(directory: string): Promise<void> {
  const journal = await openJournal(directory);
  const [a, b] = [0 as EndpointIndex, 1 as EndpointIndex];
  journal.nameEndpoint(a, keyOf('vm-a', 'port-a'));
  journal.nameEndpoint(b, keyOf('vm-b', 'port-b'));
  const atUs = Date.UTC(2026, 0, 2, 3, 4, 5) * 1000;
  journal.append(1, a, Status.up, Source.netlink, atUs, true);
  await journal.flush();
  journal.append(2, b, Status.up, Source.felix, atUs + 1, true);
  journal.append(3, a, Status.down, Source.netlink, atUs + 2, false);
  await journal.flush();
  journal.append(4, a, Status.removed, Source.datastore, atUs + 3, false);
  journal.committed(0, Uint8Array.of(1, 1, 1, 0), 77, [a, b], [1, 2], [false, false]);
  journal.settled(3);
  await journal.close();
}

describe('flapd journal and flapd history', () => {
  const folder = temporaryFolder();
  before(() => fill(folder.path));
  after(() => folder.remove());

  for (const name of ['port-a', 'vm-a', 'openstack/vm-a', keyOf('vm-a', 'port-a')]) {
    it(`history finds an endpoint by ${name}`, () => {
      const { code, stdout } = flapd('history', name, '--dir', folder.path, '--json');
      assert.equal(code, 0);
      const entries = JSON.parse(stdout) as Record<string, unknown>[];
      assert.deepEqual(
        entries.map(({ seq, status, source, revision, pending }) => ({
          seq,
          status,
          source,
          revision,
          pending,
        })),
        [
          { seq: 1, status: 'up', source: 'netlink', revision: 77, pending: false },
          { seq: 3, status: 'down', source: 'netlink', revision: null, pending: true },
          { seq: 4, status: 'removed', source: 'datastore', revision: null, pending: true },
        ],
      );
      assert.equal(entries[1]!.observed, '2026-01-02T03:04:05.000002Z');
    });
  }

  it('history is readable, shows what is pending, and only the last ones where it is told so', () => {
    const { stdout } = flapd('history', 'port-a', '--dir', folder.path);
    assert.match(stdout, /2026-01-02T03:04:05\.000000Z +netlink +up +1 +77\n/);
    assert.match(stdout, /datastore +removed +4 +pending\n$/);
    const last = flapd('history', 'port-a', '--dir', folder.path, '--limit', '1', '--json');
    assert.deepEqual(
      JSON.parse(last.stdout).map(({ seq }: { seq: number }) => seq),
      [4],
    );
  });

  it('history says what there is not', () => {
    const { code, stderr } = flapd('history', 'port-z', '--dir', folder.path);
    assert.equal(code, 1);
    assert.match(stderr, /no transition of port-z/);
    const nowhere = flapd('history', 'port-a', '--dir', join(folder.path, 'nowhere'));
    assert.equal(nowhere.code, 74);
    assert.match(nowhere.stderr, /nowhere/);
  });

  it('stat counts what is pending', () => {
    const { code, stdout } = flapd('journal', 'stat', '--dir', folder.path, '--json');
    assert.equal(code, 0);
    const { transitions, pending, endpoints, oldestPending } = JSON.parse(stdout) as Record<string, unknown>;
    assert.deepEqual(
      { transitions, pending, endpoints, oldestPending },
      { transitions: 4, pending: 2, endpoints: 2, oldestPending: '2026-01-02T03:04:05.000002Z' },
    );
    assert.match(
      flapd('journal', 'stat', '--dir', folder.path).stdout,
      /4 transitions of 2 endpoints; 2 pending/,
    );
  });

  it('dump prints every record', () => {
    const lines = flapd('journal', 'dump', '--dir', folder.path, '--json').stdout.trim().split('\n');
    const kinds = lines.map((line) => (JSON.parse(line) as { kind: string }).kind);
    assert.equal(kinds.filter((kind) => kind === 'transition').length, 4);
    assert.equal(kinds.filter((kind) => kind === 'committed').length, 1);
    assert.match(
      flapd('journal', 'dump', '--dir', folder.path).stdout,
      /^transition seq=3 key=\S+port-a status=down/m,
    );
  });

  it('repair refuses a journal that is in use', async () => {
    const journal = await openJournal(folder.path);
    const { code, stderr } = flapd('journal', 'repair', '--dir', folder.path);
    assert.equal(code, 77);
    assert.match(stderr, new RegExp(`locked by pid ${process.pid}\\b`));
    await journal.close();
  });

  it('verify finds damage, repair saves the rest, and the damaged file is put aside', async () => {
    const damaged = temporaryFolder();
    await fill(damaged.path);
    assert.equal(flapd('journal', 'verify', '--dir', damaged.path).code, 0);
    const file = join(damaged.path, segmentName(1));
    const bytes = readFileSync(file);
    bytes[scanBytes(bytes, 1).blocks[2]!.start + 20]! ^= 1; // the checkpoint, transition 1, then 2 and 3
    writeFileSync(file, bytes);
    const verified = flapd('journal', 'verify', '--dir', damaged.path);
    assert.equal(verified.code, 65);
    assert.match(verified.stdout, /DAMAGED at byte \d+/);
    assert.match(verified.stderr, /flapd journal repair --dir/);
    const repaired = flapd('journal', 'repair', '--dir', damaged.path);
    assert.equal(repaired.code, 0, repaired.stderr);
    assert.match(repaired.stdout, /is now damaged-/);
    assert.match(repaired.stdout, /transitions 2 to 3 are missing/);
    assert.equal(readdirSync(damaged.path).filter((name) => name.startsWith('damaged-')).length, 1);
    assert.equal(flapd('journal', 'verify', '--dir', damaged.path).code, 0);
    await (await openJournal(damaged.path)).close();
    damaged.remove();
  });
});
