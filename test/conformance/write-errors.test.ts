/** What Felix's reporter is tested for where writing fails: it is tried again, and nothing is lost, reordered or doubled. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { flapdPrefix, hostPrefix, workloadPrefix } from '../../src/endpoints/key.js';
import { Status } from '../../src/endpoints/status.js';
import { vm, where } from '../support/host.js';
import { startProxy } from '../support/proxy.js';
import { until } from '../support/waiting.js';
import { nic, Store, unspaced } from './fed-host.js';

const { up, down, removed } = Status;

describe('a write that fails', { concurrency: 3 }, () => {
  it('twice is tried again, in its order, and is there once', async (t) => {
    const store = await Store.open(t);
    const proxy = await startProxy(store.etcd.endpoint);
    t.after(() => proxy.close());
    const host = await store.host(unspaced, { through: proxy.endpoint });
    await host.tell(vm(1), up);
    await store.history.reaches(host.key(vm(1)), 1);
    const expected = ['up'];
    const retried = /^flapd_txn_retries_total\{reason="(connection|unavailable|timeout)"\} [1-9]/m;
    // A cut may hit an answer of a watch or a list instead.
    await until('a transaction to be tried again', async () => {
      proxy.cutReplies(2);
      await host.tell(vm(1), down, up, removed, up);
      expected.push('down', 'up', 'removed', 'down', 'up');
      assert.deepEqual(await store.history.reaches(host.key(vm(1)), expected.length), expected);
      return retried.test(await host.flapd.get('/metrics'));
    });
    assert.equal(await host.stop(), 0, host.flapd.words);
    assert.deepEqual(store.history.of(host.key(vm(1))), expected);
  });

  it('since the network swallows everything is tried again until it does not', async (t) => {
    const store = await Store.open(t);
    const proxy = await startProxy(store.etcd.endpoint);
    t.after(() => proxy.close());
    const host = await store.host([...unspaced, '--set=etcd.deadline=300ms'], { through: proxy.endpoint });
    proxy.blackhole(true);
    await host.tell(vm(1), up, down);
    await host.tell(nic('eth0'), up, down);
    await until(
      'several tries to have failed',
      async () => (await host.flapd.metric('flapd_txn_retries_total{reason="timeout"}')) >= 3,
    );
    assert.deepEqual(store.history.of(host.key(vm(1))), []);
    proxy.blackhole(false);
    assert.deepEqual(await store.history.reaches(host.key(vm(1)), 2), ['up', 'down']);
    assert.deepEqual(await store.history.reaches(host.key(nic('eth0')), 2), ['up', 'down']);
    assert.equal(await host.stop(), 0, host.flapd.words);
    assert.deepEqual(store.history.of(host.key(vm(1))), ['up', 'down']);
  });

  it('since etcd is frozen is tried again when it is not, in its order', async (t) => {
    const store = await Store.open(t);
    const host = await store.host([...unspaced, '--set=etcd.deadline=300ms']);
    await host.tell(vm(1), up);
    await store.history.reaches(host.key(vm(1)), 1);
    store.etcd.kill('SIGSTOP');
    await host
      .tell(vm(1), down, up, down)
      .then(() =>
        until(
          'several tries to have failed',
          async () => (await host.flapd.metric('flapd_txn_retries_total{reason="timeout"}')) >= 3,
        ),
      )
      .finally(() => store.etcd.kill('SIGCONT'));
    assert.deepEqual(await store.history.reaches(host.key(vm(1)), 4), ['up', 'down', 'up', 'down']);
    assert.equal(await host.stop(), 0, host.flapd.words);
    assert.deepEqual(store.history.of(host.key(vm(1))), ['up', 'down', 'up', 'down']);
  });

  it('since the role lacks a permission holds up no other kind of endpoint (C4), and is there when it is granted', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const store = await Store.open(t);
    const { etcd } = store;
    const root = '--user=root:root';
    const grant = (prefix: string): string[] => [
      'role',
      'grant-permission',
      'flapd',
      'readwrite',
      prefix,
      '--prefix=true',
    ];
    for (const words of [
      ['user', 'add', 'root:root'],
      ['user', 'grant-role', 'root', 'root'],
      ['role', 'add', 'flapd'],
      grant(hostPrefix(where)),
      grant(flapdPrefix(where)),
      ['user', 'add', 'flapd:secret'],
      ['user', 'grant-role', 'flapd', 'flapd'],
      ['auth', 'enable'],
    ]) {
      etcd.ctl(...words);
    }
    const password = join(folder, 'password');
    writeFileSync(password, 'secret\n');
    const host = await store.host([
      ...unspaced,
      '--set=etcd.user=flapd',
      `--set=etcd.passwordFile=${password}`,
    ]);
    const get = (key: string): string => etcd.ctl(root, 'get', '-w', 'fields', key);
    const versionOf = (key: string): number => Number(/"Version" : (\d+)/.exec(get(key))?.[1] ?? 0);
    await host.tell(vm(1), up, down, up);
    await until('flapd to be denied', () => host.flapd.metric('flapd_txn_retries_total{reason="denied"}'));
    await host.tell(nic('eth0'), up, down, up);
    await until('the host endpoint to be written', () => versionOf(host.key(nic('eth0'))) === 3);
    assert.equal(versionOf(host.key(vm(1))), 0);
    etcd.ctl(root, ...grant(workloadPrefix(where)));
    await until('the workload endpoint to be written', () => versionOf(host.key(vm(1))) === 3, {
      deadlineMs: 45_000,
      everyMs: 200,
    });
  });
});
