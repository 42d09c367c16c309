/** Two compute nodes of a cloud: Calico's resources in a real etcd, real interfaces, flapd on each with its defaults. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { statusKey, type Where } from '../../src/endpoints/key.js';
import {
  hostEndpoint,
  hostEndpointId,
  type Port,
  type Resource,
  tapOf,
  workloadEndpoint,
  workloadEndpointId,
} from '../support/calico.js';
import { type Etcd, startCluster } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { History } from '../support/host.js';
import type { NetNamespace } from '../support/netns.js';
import { Network } from '../support/network.js';
import { until } from '../support/waiting.js';

/** The name of the second goes on with a dash after that of the first: their resources lie beside each other. */
const names = ['compute', 'compute-2'] as const;
type Node = (typeof names)[number];

const portOf = (node: Node, n: number): Port => ({
  node,
  vm: `vm-${n}`,
  port: `${String(n).padStart(3, '0')}a7c3e-5b1d-4f2e-9c80-1a2b3c4d5e6f`,
});

describe('two compute nodes', () => {
  let network: Network;
  let etcd: Etcd;
  let history: History;
  const folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
  const nodes = new Map<Node, { namespace: NetNamespace; flapd: Flapd }>();
  /** Fifty of each node. */
  const ports = Array.from({ length: 100 }, (_, n) => portOf(names[n % 2]!, n));

  const startOn = async (name: Node, namespace: NetNamespace): Promise<Flapd> => {
    const own = join(folder, name);
    mkdirSync(own, { recursive: true });
    return Flapd.start({
      etcd: etcd.endpoint,
      namespace,
      folder: own,
      args: [`--host=${name}`, `--journal=${join(own, 'journal')}`, '--set=reporting.processStatus=true'],
    });
  };
  const put = ({ key, value }: Resource): void => {
    etcd.ctl('put', key, value);
  };
  const drop = ({ key }: Resource): void => {
    etcd.ctl('del', key);
  };
  const keyOf = (port: Port): string =>
    statusKey(workloadEndpointId(port), { host: port.node, region: null });
  const statusesOf = (port: Port): string[] => history.of(keyOf(port));
  const namespaceOf = (node: Node): NetNamespace => nodes.get(node)!.namespace;
  const reads = async (port: Port, expected: readonly string[]): Promise<void> => {
    const key = keyOf(port);
    await history.reaches(key, expected.length);
    assert.deepEqual(history.of(key), expected);
  };

  before(async () => {
    network = await Network.create(3);
    const [etcdHost, ...computes] = network.hosts;
    [etcd] = (await startCluster(1, { hosts: [etcdHost!] })) as [Etcd];
    const endpoint = await network.gate(etcdHost!, etcd.port);
    for (const port of ports) put(workloadEndpoint(port));
    put(workloadEndpoint({ ...portOf('compute', 200), ips: [] }));
    put(hostEndpoint({ name: 'compute-eth0', node: 'compute', interfaceName: 'eth0' }));
    put(hostEndpoint({ name: 'compute-ip', node: 'compute', expectedIPs: [computes[0]!.address] }));
    put(hostEndpoint({ name: 'compute-all', node: 'compute', interfaceName: '*' }));
    put(hostEndpoint({ name: 'compute-none', node: 'compute', interfaceName: 'eth7' }));
    // Left from before: of a VM that is gone, of another host, of another region.
    for (const key of leftovers) etcd.ctl('put', key, '{"status":"up"}');
    history = new History(endpoint);
    for (const [i, name] of names.entries()) {
      const { namespace } = computes[i]!;
      // All but one of its VMs run: a veth pair that is up stands for a tap with its VM.
      const running = ports.filter(
        ({ node, vm }) => node === name && !vm.endsWith('-98') && !vm.endsWith('-99'),
      );
      addInterfaces(namespace, running);
      nodes.set(name, { namespace, flapd: await startOn(name, namespace) });
    }
  });
  after(async () => {
    for (const { flapd } of nodes.values()) await flapd.stop();
    await history?.close();
    await etcd?.close();
    await network?.close();
    rmSync(folder, { recursive: true });
  });

  it('each writes the status of each of its own endpoints, once, and nothing else', async () => {
    for (const { flapd } of nodes.values()) await flapd.ready(30_000);
    for (const port of ports) await reads(port, [port.vm === 'vm-98' || port.vm === 'vm-99' ? 'down' : 'up']);
    const where: Where = { host: 'compute', region: null };
    for (const [name, status] of [
      ['compute-eth0', 'up'],
      ['compute-ip', 'up'],
      ['compute-all', 'up'],
      ['compute-none', 'error'],
    ] as const) {
      const key = statusKey(hostEndpointId(name), where);
      await history.reaches(key, 1);
      assert.deepEqual(history.of(key), [status], name);
    }
    await until('the key of a VM that is gone to be removed', () => history.of(leftovers[0]!).length === 2);
    assert.deepEqual(history.of(leftovers[0]!), ['up', 'removed']);
    for (const key of leftovers.slice(1)) assert.deepEqual(history.of(key), ['up'], key);
    const expected = new Set([
      ...ports.map(keyOf),
      ...['compute-eth0', 'compute-ip', 'compute-all', 'compute-none'].map((name) =>
        statusKey(hostEndpointId(name), where),
      ),
      ...leftovers,
      ...names.flatMap((name) =>
        ['status', 'last_reported_status'].map((last) => `/calico/felix/v2/no-region/host/${name}/${last}`),
      ),
    ]);
    assert.deepEqual(new Set(history.keys), expected);
  });

  it('a rebuild: the tap destroyed, made anew and taken by its VM reads down, up', async () => {
    const port = ports[0]!;
    const namespace = namespaceOf('compute');
    const tap = tapOf(port.port);
    // A veth stood for it so far.
    namespace.ip(`link del ${tap}`);
    await reads(port, ['up', 'down']);
    namespace.ip(`tuntap add mode tap name ${tap}`);
    namespace.ip(`link set ${tap} up`);
    let detach = await namespace.attach(tap);
    await reads(port, ['up', 'down', 'up']);
    await detach();
    namespace.exec(
      'sh',
      '-c',
      `ip link del ${tap}; ip tuntap add mode tap name ${tap}; ip link set ${tap} up`,
    );
    detach = await namespace.attach(tap);
    await reads(port, ['up', 'down', 'up', 'down', 'up']);
    await detach();
  });

  it('a rebuild of which Neutron writes the resource anew meanwhile reads the same', async () => {
    const port = ports[2]!;
    const namespace = namespaceOf('compute');
    namespace.ip(`link del ${tapOf(port.port)}`);
    put(workloadEndpoint({ ...port, labels: { rebuilt: 'yes' } }));
    addInterfaces(namespace, [port]);
    await reads(port, ['up', 'down', 'up']);
  });

  it('a live migration: the destination comes to be up, the source is removed, and back again', async () => {
    const source = ports[4]!;
    const destination: Port = { ...source, node: 'compute-2' };
    addInterfaces(namespaceOf('compute-2'), [destination]);
    put(workloadEndpoint(destination));
    await reads(destination, ['up']);
    assert.deepEqual(statusesOf(source), ['up'], 'both report it while both have it');
    drop(workloadEndpoint(source));
    namespaceOf('compute').ip(`link del ${tapOf(source.port)}`);
    await reads(source, ['up', 'removed']);
    assert.deepEqual(statusesOf(destination), ['up']);

    addInterfaces(namespaceOf('compute'), [source]);
    put(workloadEndpoint(source));
    // What comes back begins with down: else Nova would get no event (C31).
    await reads(source, ['up', 'removed', 'down', 'up']);
    drop(workloadEndpoint(destination));
    await reads(destination, ['up', 'removed']);
  });

  it('a deletion: the tap goes, then the resource', async () => {
    const port = ports[6]!;
    namespaceOf('compute').ip(`link del ${tapOf(port.port)}`);
    await reads(port, ['up', 'down']);
    drop(workloadEndpoint(port));
    await reads(port, ['up', 'down', 'removed']);
  });

  it('a VM that starts: its resource first, then its tap', async () => {
    const port = portOf('compute-2', 300);
    put(workloadEndpoint(port));
    await reads(port, ['down']);
    addInterfaces(namespaceOf('compute-2'), [port]);
    await reads(port, ['down', 'up']);
  });

  it('a damaged resource leaves its port as it is, also through a restart, and is taken up when repaired', async () => {
    const port = ports[8]!;
    const { flapd, namespace } = nodes.get('compute')!;
    put({ ...workloadEndpoint(port), value: '{"spec":' });
    await flapd.says('cannot be read: what it said before stays in force');
    namespace.ip(`link set ${tapOf(port.port)} down`);
    await reads(port, ['up', 'down']);
    assert.equal(await flapd.metric('flapd_datastore_unreadable'), 1);
    assert.equal(await flapd.stop(), 0, flapd.words);
    const again = await startOn('compute', namespace);
    nodes.set('compute', { namespace, flapd: again });
    await again.ready(30_000);
    await until(
      'two comparisons with etcd',
      async () => (await again.metric('flapd_resync_runs_total{result="clean"}')) >= 2,
      { deadlineMs: 30_000 },
    );
    assert.deepEqual(statusesOf(port), ['up', 'down']);
    put(workloadEndpoint(port));
    namespace.ip(`link set ${tapOf(port.port)} up`);
    await reads(port, ['up', 'down', 'up']);
  });

  it('in the end, all others are as they were', () => {
    const touched = new Set(['vm-0', 'vm-2', 'vm-4', 'vm-6', 'vm-8', 'vm-98', 'vm-99']);
    for (const port of ports.filter(({ vm }) => !touched.has(vm)))
      assert.deepEqual(statusesOf(port), ['up'], port.vm);
  });
});

const leftovers = [
  '/calico/felix/v2/no-region/host/compute/workload/openstack/openstack%2fvm-gone/endpoint/gone',
  '/calico/felix/v2/no-region/host/elsewhere/workload/openstack/openstack%2fvm-1/endpoint/one',
  '/calico/felix/v2/region-north/host/compute/workload/openstack/openstack%2fvm-1/endpoint/one',
];

/** An end of a veth pair by the name of each port's tap, up, and running. */
function addInterfaces(namespace: NetNamespace, ports: readonly Port[]): void {
  const words = ports.flatMap(({ port }) => [
    `ip link add ${tapOf(port)} type veth peer name vm${port.slice(0, 8)}`,
    `ip link set vm${port.slice(0, 8)} up`,
    `ip link set ${tapOf(port)} up`,
  ]);
  namespace.exec('sh', '-ec', words.join('\n'));
}
