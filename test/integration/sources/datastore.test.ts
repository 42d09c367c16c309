import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, it } from 'node:test';
import type { Etcd3 } from 'etcd3';
import type { Definition } from '../../../src/endpoints/derive.js';
import { type EndpointId, idKey } from '../../../src/endpoints/id.js';
import type { Where } from '../../../src/endpoints/key.js';
import { openEtcd } from '../../../src/etcd/client.js';
import { listPrefix } from '../../../src/etcd/list.js';
import { watchPrefix } from '../../../src/etcd/watch.js';
import { DatastoreSource } from '../../../src/sources/datastore/datastore.js';
import {
  hostEndpoint,
  hostEndpointId,
  type Port,
  type Resource,
  workloadEndpoint,
  workloadEndpointId,
  workloadEndpointKey,
} from '../../support/calico.js';
import { type Etcd, startEtcd } from '../../support/etcd.js';
import { type FaultyProxy, startProxy } from '../../support/proxy.js';
import { until } from '../../support/waiting.js';
import { versions } from '../etcd/fixture.js';

/** What a source has told, put together: the endpoints that are defined, and each event in its order. */
class Host {
  readonly definitions = new Map<string, Definition>();
  readonly events: string[] = [];
  readonly failing: string[] = [];
  readonly damaged: string[] = [];
  following = 0;
  readonly source: DatastoreSource;
  readonly #client: Etcd3;

  constructor(endpoint: string, where: Where) {
    const connection = { endpoints: [endpoint], deadlineMs: 1000 };
    this.#client = openEtcd(connection);
    this.source = new DatastoreSource({
      where,
      list: (prefix) => listPrefix(this.#client, prefix, { pageSize: 100 }),
      watch: (prefix, options) => watchPrefix(connection, prefix, options),
      nowUs: () => Date.now() * 1000,
      log: { info: () => undefined },
      events: {
        defined: (definition) => {
          this.definitions.set(idKey(definition.id), definition);
          this.events.push(`defined ${definition.id.endpoint} ${definition.interfaceName}`);
        },
        undefined: (id) => {
          assert.ok(this.definitions.delete(idKey(id)), `${id.endpoint} was defined`);
          this.events.push(`undefined ${id.endpoint}`);
        },
        damaged: (key) => this.damaged.push(key),
        repaired: (key) => this.damaged.splice(this.damaged.indexOf(key), 1),
        inSync: () => this.events.push('in sync'),
        failing: (what, why) => this.failing.push(`${what}: ${why}`),
        following: () => this.following++,
      },
    });
  }

  static async start(endpoint: string, where: Where): Promise<Host> {
    const host = new Host(endpoint, where);
    await host.source.start();
    return host;
  }

  has(id: EndpointId): boolean {
    return this.definitions.has(idKey(id));
  }

  /** Both prefixes are listed and watched. */
  async inSync(): Promise<void> {
    await until('the source to be in sync and watching', () => this.source.inSync && this.following >= 2);
  }

  async reaches(expected: readonly string[]): Promise<void> {
    await until(
      `${expected.length} events; there are ${JSON.stringify(this.events)}`,
      () => this.events.length >= expected.length,
    );
    assert.deepEqual(this.events, expected);
  }

  async close(): Promise<void> {
    await this.source.stop();
    this.#client.close();
  }
}

for (const version of versions) {
  describe(`Calico's resources in etcd ${version}`, () => {
    let etcd: Etcd;
    let proxy: FaultyProxy;
    let client: Etcd3;
    let node: string;
    let tests = 0;
    let host: Host | null;
    before(async () => {
      etcd = await startEtcd({ version });
      proxy = await startProxy(etcd.endpoint);
      client = openEtcd({ endpoints: [etcd.endpoint] });
    });
    after(async () => {
      client.close();
      await proxy.close();
      await etcd.close();
    });
    beforeEach(() => {
      tests++;
      // With a dash: of each test its own, and none of which another one's name is the beginning.
      node = `node-${String.fromCharCode(96 + tests)}`;
      host = null;
    });
    afterEach(async () => {
      await host?.close();
    });

    const portOf = (n: number, parts: Partial<Port> = {}): Port => ({
      node,
      vm: `vm-${n}`,
      port: `port-${n}`,
      interfaceName: `tap${n}`,
      ...parts,
    });
    const vm = (n: number, parts: Partial<Port> = {}) => workloadEndpoint(portOf(n, parts));
    const put = ({ key, value }: Resource) => client.put(key).value(value);
    const remove = ({ key }: Resource) => client.delete().key(key);
    /** The revision of the last write is all that is left of history. */
    const compact = async () => {
      const { header } = await client.put('/elsewhere').value('x');
      await client.kv.compact({ revision: header.revision, physical: true });
    };
    const start = async (region: string | null = null, endpoint = proxy.endpoint) => {
      host = await Host.start(endpoint, { host: node, region });
      return host;
    };
    const started = async (...resources: Resource[]) => {
      for (const resource of resources) await put(resource);
      const there = await start();
      await there.inSync();
      return there;
    };

    it("are read, 1,000 of them in pages, and no other host's", async () => {
      const all = Array.from({ length: 1000 }, (_, n) => vm(n));
      const others = Array.from({ length: 100 }, (_, n) => [
        vm(n, { node: `${node}-2` }),
        vm(n, { node: `${node}2` }),
        vm(n, { region: 'eu' }),
      ]).flat();
      const resources = [...all, ...others];
      for (let from = 0; from < resources.length; from += 100) {
        await client.kv.txn({
          success: resources.slice(from, from + 100).map(({ key, value }) => ({
            request_put: { key: Buffer.from(key), value: Buffer.from(value) },
          })),
        });
      }
      const there = await start();
      await there.inSync();
      assert.equal(there.definitions.size, 1000);
      for (const n of [0, 1, 999]) assert.ok(there.has(workloadEndpointId(portOf(n))), String(n));
      assert.equal(there.events.at(-1), 'in sync');
      assert.deepEqual(there.damaged, []);
    });

    it('with a region are those of its namespace alone', async () => {
      await put(vm(1));
      await put(vm(2, { region: 'eu-west' }));
      const there = await start('eu-west');
      await there.inSync();
      assert.deepEqual(
        [...there.definitions.values()].map(({ id }) => id),
        [workloadEndpointId(portOf(2, { region: 'eu-west' }))],
      );
    });

    it('have no gap between the list and the watch, whenever they change', async () => {
      const there = await start();
      // From before the first list on, until long after it.
      for (let i = 0; i < 300; i++) {
        await put(vm(i % 30, { interfaceName: `t${i}` }));
        if (i % 7 === 0) await remove(vm((i + 5) % 30));
      }
      await put(vm(999));
      await until('the last one', () => there.has(workloadEndpointId(portOf(999))));
      const { keys } = await listPrefix(client, workloadEndpointKey(portOf(0)).split('openstack-')[0]!);
      const expected = keys.map(({ value }) => JSON.parse(value.toString()).spec);
      assert.ok(expected.length > 20);
      assert.deepEqual(
        [...there.definitions.values()]
          .map(({ id, interfaceName }) => `${id.endpoint} ${interfaceName}`)
          .toSorted(),
        expected.map(({ endpoint, interfaceName }) => `${endpoint} ${interfaceName}`).toSorted(),
      );
    });

    it('tell of a migration, on both hosts, and of host endpoints that are moved', async () => {
      const there = await started(vm(1), hostEndpoint({ name: `${node}.eth0`, node, interfaceName: 'eth0' }));
      const other = await Host.start(etcd.endpoint, { host: `${node}-2`, region: null });
      try {
        await other.inSync();
        await put(vm(1, { node: `${node}-2` }));
        await remove(vm(1));
        await put(hostEndpoint({ name: `${node}.eth0`, node: `${node}-2`, interfaceName: 'eth0' }));
        await until('the other host to have both', () => other.definitions.size === 2);
        await until('this one to have none', () => there.definitions.size === 0);
        assert.deepEqual(
          other.events.filter((event) => event !== 'in sync').toSorted(),
          [`defined ${node}.eth0 eth0`, 'defined port-1 tap1'].toSorted(),
        );
        assert.ok(other.has(hostEndpointId(`${node}.eth0`)));
      } finally {
        await other.close();
      }
    });

    it('that are damaged keep their endpoints, until they are mended or deleted', async () => {
      const there = await started(vm(1), vm(2));
      const told = ['defined port-1 tap1', 'defined port-2 tap2', 'in sync'];
      await client.put(vm(1).key).value(Buffer.from([0xff, 0x00, 0xfe]));
      await client.put(vm(2).key).value('{"spec": {"node": 5}}');
      await until('the damage', () => there.damaged.length === 2);
      await put(vm(3));
      await there.reaches([...told, 'defined port-3 tap3']);
      assert.equal(there.definitions.size, 3);
      await put(vm(1, { interfaceName: 'tapnew' }));
      await remove(vm(2));
      await there.reaches([...told, 'defined port-3 tap3', 'defined port-1 tapnew', 'undefined port-2']);
      assert.deepEqual(there.damaged, []);
    });

    it('are listed again where history was compacted away while the connection was lost', async () => {
      const there = await started(vm(1), vm(2), vm(3));
      const told = [...there.events];
      proxy.blackhole(true);
      proxy.cut();
      await until('the loss to be noticed', () => there.failing.length > 0);
      await remove(vm(1));
      await put(vm(2, { interfaceName: 'tapnew' }));
      await put(vm(4));
      await compact();
      assert.deepEqual(there.events, told);
      proxy.blackhole(false);
      await until('the last one', () => there.has(workloadEndpointId(portOf(4))));
      assert.deepEqual(there.events, [
        ...told,
        'undefined port-1',
        'defined port-2 tapnew',
        'defined port-4 tap4',
      ]);
      assert.ok(there.source.figures.gaps >= 1);
      await put(vm(5));
      await until('what comes after it', () => there.has(workloadEndpointId(portOf(5))));
    });

    it('are followed across compactions while they are watched, with no list', async () => {
      const there = await started(vm(1));
      for (let i = 0; i < 20; i++) {
        await put(vm(1, { interfaceName: `t${i}` }));
        await compact();
      }
      await until('the last change', () => there.events.at(-1) === 'defined port-1 t19');
      assert.equal(there.events.length, 22);
      assert.equal(there.source.figures.lists, 2);
    });

    it('are followed on after etcd was killed and started again', async () => {
      const there = await started(vm(1));
      const told = [...there.events];
      await etcd.restart();
      await until('etcd to take a put', () =>
        put(vm(2)).then(
          () => true,
          () => false,
        ),
      );
      await until('what came after it', () => there.has(workloadEndpointId(portOf(2))));
      assert.deepEqual(there.events, [...told, 'defined port-2 tap2']);
    });

    it('are read when etcd comes at last', async () => {
      proxy.blackhole(true);
      await put(vm(1));
      const there = await start();
      try {
        await until('a failure of both lists', () => new Set(there.failing).size >= 2);
        assert.equal(there.source.inSync, false);
        assert.deepEqual(there.events, []);
      } finally {
        proxy.blackhole(false);
        proxy.cut();
      }
      await there.inSync();
      assert.deepEqual(there.events, ['defined port-1 tap1', 'in sync']);
    });

    it('are compared with those of a restored etcd', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'flapd-snapshot-'));
      const first = await startEtcd({ version });
      const { port } = first;
      const writer = openEtcd({ endpoints: [first.endpoint] });
      let restored: Etcd | null = null;
      try {
        const write = async ({ key, value }: Resource) => {
          await writer.put(key).value(value);
        };
        await write(vm(1));
        first.ctl('snapshot', 'save', join(folder, 'snapshot'));
        await write(vm(2));
        await write(vm(1, { interfaceName: 'tapnew' }));
        const there = await start(null, first.endpoint);
        await there.inSync();
        first.kill('SIGKILL'); // it would wait for its watches to end
        await first.close();
        restored = await startEtcd({ version, port, snapshot: join(folder, 'snapshot') });
        await until('the difference', () => there.events.length >= 5, { deadlineMs: 20_000 });
        assert.deepEqual(there.events.slice(-2), ['undefined port-2', 'defined port-1 tap1']);
      } finally {
        writer.close();
        await first.close();
        await restored?.close();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  });
}
