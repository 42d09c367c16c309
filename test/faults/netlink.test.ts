/** News of interfaces that the kernel drops, in the running daemon (fault 27). */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, afterEach, before, describe, it } from 'node:test';
import { unlimited } from '../support/course.js';
import { type Etcd, startCluster } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { History } from '../support/host.js';
import type { NetNamespace } from '../support/netns.js';
import { Network } from '../support/network.js';
import { storm } from '../support/storm.js';
import { until } from '../support/waiting.js';

const flapping = 20;
const cycles = 50;

/** The process that holds flapd's netlink socket. */
function readerOf(pid: number): number {
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    for (const child of readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8')
      .split(' ')
      .filter(Boolean)) {
      if (readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('reader-process')) return Number(child);
    }
  }
  throw new Error(`flapd (${pid}) has no process that reads netlink`);
}

describe('an overrun of the netlink buffer, in a storm', () => {
  let network: Network;
  let namespace: NetNamespace;
  let etcd: Etcd;
  let history: History;
  let flapd: Flapd;

  before(async () => {
    network = await Network.create(1);
    const [host] = network.hosts;
    namespace = host!.namespace;
    [etcd] = (await startCluster(1, { hosts: [host!] })) as [Etcd];
    history = new History(await network.gate(host!, etcd.port));
  });
  afterEach(() => flapd.kill9());
  after(async () => {
    await history.close();
    await etcd.close();
    await network.close();
  });

  const batch = (lines: readonly string[]): void => {
    namespace.exec('sh', '-c', `printf '${lines.join('\\n')}\\n' | ip -batch -`);
  };
  const of = (name: string): string[] => history.of(history.keys.find((key) => key.includes(name)) ?? '');

  it('is counted; every flap is known from the carrier counters, and nothing is said of what did not change', async () => {
    const names = Array.from({ length: flapping }, (_, n) => `veth${n}x`);
    batch(
      [...names, 'vethquiet'].flatMap((name) => [
        `link add ${name} type veth peer name peer-${name}`,
        `link set ${name} up`,
        `link set peer-${name} up`,
      ]),
    );
    flapd = await Flapd.start({
      etcd: etcd.endpoint,
      namespace,
      args: [
        '--endpoints-from=interfaces',
        '--set=endpoints.interfaces=^veth',
        '--journal=memory',
        '--set=netlink.receiveBuffer=4096',
        ...unlimited,
      ],
    });
    await flapd.ready();
    await until('all interfaces to be reported', () =>
      [...names, 'vethquiet'].every((name) => of(name).length === 1),
    );
    const reader = readerOf(flapd.pid);
    process.kill(reader, 'SIGSTOP');
    for (let cycle = 0; cycle < cycles; cycle++) {
      batch(names.flatMap((name) => [`link set peer-${name} down`, `link set peer-${name} up`]));
    }
    process.kill(reader, 'SIGCONT');
    for (const name of names) {
      await until(
        `all flaps of ${name}; there are ${of(name).length}`,
        () => of(name).length >= 1 + 2 * cycles,
      );
    }
    assert.ok((await flapd.metric('flapd_netlink_overruns_total')) >= 1, 'the kernel dropped messages');
    assert.ok((await flapd.metric('flapd_carrier_flaps_recovered_total')) > 0, 'flaps were recovered');
    batch([`link set peer-${names[0]} down`]);
    await until('a fresh transition', () => of(names[0]!).at(-1) === 'down', { deadlineMs: 5000 });
    assert.equal(await flapd.stop(), 0, flapd.words);
    const alternating = Array.from({ length: 1 + 2 * cycles }, (_, i) => (i % 2 === 0 ? 'up' : 'down'));
    assert.deepEqual(of(names[0]!), [...alternating, 'down']);
    for (const name of names.slice(1)) assert.deepEqual(of(name), alternating, name);
    assert.deepEqual(of('vethquiet'), ['up']);
  });
});

describe('a netlink buffer that is always too small', () => {
  it('loses, repeats and reorders nothing', async () => {
    const { code, report, errors } = await storm(
      ...['--etcd-embedded', '--via=netlink', '--endpoints=50', '--transitions=2000', '--seed=5'],
      ...['--removals=0', '--set=netlink.receiveBuffer=4096'],
    );
    assert.equal(code, 0, errors);
    const { committed, lost, duplicated, reordered } = report!;
    assert.deepEqual([committed, lost, duplicated, reordered], [2000, 0, 0, 0]);
  });
});
