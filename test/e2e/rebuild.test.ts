import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { etcdBinary } from '../support/etcd.js';
import { Flapd, mainFile } from '../support/flapd.js';
import { NetNamespace } from '../support/netns.js';
import { until } from '../support/waiting.js';

interface Seen {
  readonly revision: number;
  readonly endpoint: string;
  readonly status: string;
}

describe('real interfaces, end to end', () => {
  let namespace: NetNamespace;
  let flapd: Flapd;
  let data: string;
  const seen: Seen[] = [];
  const statusesOf = (name: string): string[] =>
    seen.filter(({ endpoint }) => endpoint.endsWith(`/${name}`)).map(({ status }) => status);

  before(async () => {
    namespace = await NetNamespace.create();
    data = mkdtempSync(join(tmpdir(), 'flapd-test-'));
    flapd = await Flapd.start({
      etcd: null,
      namespace,
      env: { FLAPD_ETCD: etcdBinary() },
      // What is written is what is seen: no spacing in the way of the clock, no confirmations in the history.
      args: [
        `--etcd-embedded=${data}`,
        '--endpoints-from=interfaces',
        '--journal=memory',
        '--set=limits.endpointDelay=0',
        '--set=reader.confirm=false',
      ],
    });
    await flapd.says('the interfaces have been read', 30_000);
    const watch = namespace.spawn(process.execPath, [mainFile, 'watch', '--json', '--from-revision=1'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let rest = '';
    watch.stdout!.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('utf8')).split('\n');
      rest = lines.pop()!;
      for (const line of lines) seen.push(JSON.parse(line) as Seen);
    });
  });

  after(async () => {
    assert.equal(await flapd.stop(), 0, flapd.words);
    await namespace.close();
    rmSync(data, { recursive: true, force: true });
  });

  it('a rebuild with no pause reads up, down, up, with the removal of the interface between', async () => {
    namespace.ip('tuntap add mode tap name tapvm1');
    namespace.ip('link set tapvm1 up');
    let detach = await namespace.attach('tapvm1');
    await until('the first up', () => statusesOf('tapvm1').at(-1) === 'up');
    await detach();
    namespace.exec(
      'sh',
      '-c',
      'ip link del tapvm1; ip tuntap add mode tap name tapvm1; ip link set tapvm1 up',
    );
    detach = await namespace.attach('tapvm1');
    await until(
      'the second up',
      () => statusesOf('tapvm1').at(-1) === 'up' && statusesOf('tapvm1').includes('removed'),
    );
    assert.deepEqual(statusesOf('tapvm1'), ['down', 'up', 'down', 'removed', 'down', 'up']);
    await detach();
    namespace.ip('link del tapvm1');
    await until('the removal', () => statusesOf('tapvm1').at(-1) === 'removed');
  });

  it('twenty detach/attach cycles of a persistent tap, 2 ms apart, are twenty downs and twenty ups', async () => {
    namespace.ip('tuntap add mode tap name tapvm2');
    namespace.ip('link set tapvm2 up');
    await until('the tap', () => statusesOf('tapvm2').at(-1) === 'down');
    const before = statusesOf('tapvm2').length;
    namespace.attachAndDetach('tapvm2', 20, 2);
    await until(
      'twenty ups',
      () =>
        statusesOf('tapvm2')
          .slice(before)
          .filter((status) => status === 'up').length >= 20,
    );
    await until('the last down', () => statusesOf('tapvm2').at(-1) === 'down');
    assert.deepEqual(
      statusesOf('tapvm2').slice(before),
      Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? 'up' : 'down')),
    );
  });

  it('a veth whose peer goes down and up reads down, up', async () => {
    namespace.ip('link add veth1 type veth peer name peer1');
    namespace.ip('link set veth1 up');
    namespace.ip('link set peer1 up');
    await until('the first up', () => statusesOf('veth1').at(-1) === 'up');
    const before = statusesOf('veth1').length;
    for (let i = 0; i < 5; i++) {
      namespace.ip('link set peer1 down');
      namespace.ip('link set peer1 up');
    }
    await until('the last up', () => statusesOf('veth1').length >= before + 10);
    assert.deepEqual(
      statusesOf('veth1').slice(before),
      Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? 'down' : 'up')),
    );
  });

  it('an interface that is renamed is gone by its old name and there by its new one', async () => {
    namespace.ip('tuntap add mode tap name tapold');
    await until('the old name', () => statusesOf('tapold').at(-1) === 'down');
    namespace.ip('link set tapold name tapnew');
    await until('the new name', () => statusesOf('tapnew').at(-1) === 'down');
    assert.equal(statusesOf('tapold').at(-1), 'removed');
  });

  it('an interface that moves to another namespace is gone', async () => {
    const other = await NetNamespace.create();
    namespace.ip('tuntap add mode tap name tapmove');
    await until('the tap', () => statusesOf('tapmove').at(-1) === 'down');
    namespace.ip(`link set tapmove netns ${other.pid}`);
    await until('its removal', () => statusesOf('tapmove').at(-1) === 'removed');
    await other.close();
  });
});
