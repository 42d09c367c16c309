import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { LinkCounters } from '../../../src/sources/netlink/links.js';
import { NetNamespace } from '../../support/netns.js';
import { until } from '../../support/waiting.js';
import { NetlinkReader } from './netlink-reader.js';

/** `first`, then the other, so many in all. */
function alternating(first: 'up' | 'down', length: number): string[] {
  const other = first === 'up' ? 'down' : 'up';
  return Array.from({ length }, (_, i) => (i % 2 === 0 ? first : other));
}

describe('the interfaces of a real kernel', () => {
  let namespace: NetNamespace;
  let reader: NetlinkReader;

  before(async () => {
    namespace = await NetNamespace.create();
    reader = await NetlinkReader.start(namespace);
  });
  after(async () => {
    // It ends by itself when it is told to: no timer and no handle is left.
    assert.equal(await reader.stop(), 0, reader.errors);
    await namespace.close();
  });

  /** Waits until as much was told of an interface, and returns it. */
  const told = async (name: string, length: number): Promise<string[]> => {
    await until(`${length} words about ${name}; there are: ${reader.of(name).join(' ')}`, () => {
      const words = reader.of(name);
      return words.length >= length && words;
    });
    return reader.of(name);
  };

  /** An interface's counters as the kernel has them now. They are told after the changes that they count, so they may be awaited. */
  const counted = async (name: string): Promise<LinkCounters> => {
    const fresh = await NetlinkReader.start(namespace);
    const counters = fresh.counters(name);
    assert.equal(await fresh.stop(), 0);
    await until('the same counters', () => isDeepStrictEqual(reader.counters(name), counters));
    return counters!;
  };

  it('a tap that is attached and detached twenty times, 2 ms apart, goes up and down exactly twenty times', async () => {
    namespace.ip('tuntap add mode tap name tap20');
    namespace.ip('link set tap20 up');
    await told('tap20', 1);
    const from = reader.of('tap20').length;
    namespace.attachAndDetach('tap20', 20, 2);
    await told('tap20', from + 40);
    namespace.ip('link set tap20 mtu 1400'); // one more message, which must bring nothing new
    namespace.ip('link del tap20');
    await until('its end', () => reader.of('tap20').at(-1) === 'gone');
    assert.deepEqual(reader.of('tap20').slice(from), [...alternating('up', 40), 'gone']);
    assert.ok((await reader.figures()).recoveredFlaps > 0, 'the kernel merged some of it');
  });

  it('a tap that is destroyed and made anew at once is down, gone, and another one with its name', async () => {
    namespace.ip('tuntap add mode tap name taprebuilt');
    namespace.ip('link set taprebuilt up');
    let detach = await namespace.attach('taprebuilt');
    await until('its first up', () => reader.of('taprebuilt').at(-1) === 'up');
    const from = reader.of('taprebuilt').length;
    namespace.exec(
      'sh',
      '-c',
      'ip link del taprebuilt && ip tuntap add mode tap name taprebuilt && ip link set taprebuilt up',
    );
    await detach();
    detach = await namespace.attach('taprebuilt');
    await until('its second up', () => reader.of('taprebuilt').slice(from).at(-1) === 'up');
    const words = reader.of('taprebuilt').slice(from);
    assert.deepEqual(words.slice(0, 3), ['down', 'gone', 'down']);
    assert.equal(words.filter((word) => word === 'up').length, 1);
    const [first, second] = reader.indexes('taprebuilt');
    assert.ok(first! < second!, 'a new number');
    await detach();
  });

  it("a veth goes down and up with its peer, each time, and with an administrator's word", async () => {
    namespace.ip('link add veth1 type veth peer name peer1');
    namespace.ip('link set veth1 up');
    namespace.ip('link set peer1 up');
    await until('the first up', () => reader.of('veth1').at(-1) === 'up');
    const from = reader.of('veth1').length;
    for (let i = 0; i < 5; i++) {
      namespace.ip('link set peer1 down');
      namespace.ip('link set peer1 up');
    }
    await told('veth1', from + 10);
    for (let i = 0; i < 5; i++) {
      namespace.ip('link set veth1 down');
      namespace.ip('link set veth1 up');
    }
    await told('veth1', from + 20);
    // Both ends are gone when one is, and nothing is told twice of what they were before.
    namespace.ip('link del veth1');
    await until('its end', () => reader.of('veth1').at(-1) === 'gone');
    assert.deepEqual(reader.of('veth1').slice(from), [...alternating('down', 20), 'down', 'gone']);
  });

  it('an attached tap is down while an administrator has switched it off, whatever is attached meanwhile', async () => {
    namespace.ip('tuntap add mode tap name tapadmin');
    namespace.ip('link set tapadmin up');
    let detach = await namespace.attach('tapadmin');
    await until('the first up', () => reader.of('tapadmin').at(-1) === 'up');
    const from = reader.of('tapadmin').length;
    namespace.ip('link set tapadmin down');
    await told('tapadmin', from + 1);
    await detach();
    namespace.attachAndDetach('tapadmin', 3, 2);
    detach = await namespace.attach('tapadmin');
    namespace.ip('link set tapadmin up');
    await told('tapadmin', from + 2);
    await detach();
    await told('tapadmin', from + 3);
    namespace.attachAndDetach('tapadmin', 2, 2);
    await told('tapadmin', from + 7);
    namespace.ip('link del tapadmin');
    await until('its end', () => reader.of('tapadmin').at(-1) === 'gone');
    assert.deepEqual(reader.of('tapadmin').slice(from), [...alternating('down', 7), 'gone']);
  });

  it('one that is renamed keeps its number, and one that moves to another namespace is gone (C6)', async () => {
    const other = await NetNamespace.create();
    namespace.ip('tuntap add mode tap name tapold');
    await told('tapold', 1);
    namespace.ip('link set tapold name tapnew');
    await told('tapnew', 1);
    assert.deepEqual(reader.of('tapold'), ['down', 'is tapnew']);
    assert.deepEqual(reader.indexes('tapold'), reader.indexes('tapnew'));
    namespace.ip(`link set tapnew netns ${other.pid}`);
    await told('tapnew', 2);
    assert.deepEqual(reader.of('tapnew'), ['down', 'gone']);
    await other.close();
  });

  it('have addresses, each told once, until they are gone with every prefix length', async () => {
    namespace.ip('link add vethip type veth peer name peerip');
    namespace.ip('link set vethip up');
    const from = reader.addresses.length;
    const words = () => reader.addresses.slice(from).filter((word) => !word.includes('fe80'));
    namespace.ip('addr add 10.9.0.1/24 dev vethip');
    namespace.ip('addr add 10.9.0.1/32 dev vethip');
    namespace.ip('addr add 2001:db8::1/64 dev vethip nodad');
    namespace.ip('addr del 10.9.0.1/24 dev vethip');
    namespace.ip('addr add 10.9.0.2/24 dev vethip');
    namespace.ip('addr del 10.9.0.1/32 dev vethip');
    await until('the last address', () => words().includes('-10.9.0.1'));
    assert.deepEqual(words(), ['+10.9.0.1', '+2001:db8::1', '+10.9.0.2', '-10.9.0.1']);
  });

  it('that flapped while nobody listened are told of when somebody does again', async () => {
    namespace.ip('tuntap add mode tap name tapaway');
    namespace.ip('link set tapaway up');
    await told('tapaway', 1);
    namespace.attachAndDetach('tapaway', 1, 2);
    await told('tapaway', 3);
    const known = await counted('tapaway');
    const others = await NetlinkReader.start(namespace, { remember: [known] });
    assert.deepEqual(others.of('tapaway'), ['down']);
    assert.equal(await others.stop(), 0);
    namespace.attachAndDetach('tapaway', 7, 2);
    await told('tapaway', 17);
    const again = await NetlinkReader.start(namespace, { remember: [known] });
    assert.deepEqual(again.of('tapaway'), ['down', ...alternating('up', 14)]);
    assert.deepEqual(again.counters('tapaway'), await counted('tapaway'));
    assert.equal(await again.stop(), 0);
  });

  it('are told by IFF_RUNNING alone where the counters are not to be used', async () => {
    namespace.ip('tuntap add mode tap name tapplain');
    namespace.ip('link set tapplain up');
    const plain = await NetlinkReader.start(namespace, { carrierCounters: false });
    namespace.attachAndDetach('tapplain', 20, 1);
    await until('its last word by one that counts', () => reader.of('tapplain').length >= 41);
    const detach = await namespace.attach('tapplain');
    await until('up', () => plain.of('tapplain').at(-1) === 'up');
    assert.ok(plain.of('tapplain').length < 40, plain.of('tapplain').join(' '));
    assert.equal((await plain.figures()).recoveredFlaps, 0);
    await detach();
    assert.equal(await plain.stop(), 0);
  });

  it('that wake a bug end the process as a bug does, with its own words', async () => {
    const broken = NetlinkReader.spawn(namespace, { throwAt: 'lo' });
    assert.equal(await broken.ended(), 1);
    assert.match(broken.errors, /a bug that lo woke/);
  });
});

describe('messages that the kernel drops', () => {
  it('are made good: every flap, what went, what came, and the addresses (C13)', async () => {
    const namespace = await NetNamespace.create();
    for (const tap of ['tapflaps', 'tapgoes', 'tapquiet']) {
      namespace.ip(`tuntap add mode tap name ${tap}`);
      namespace.ip(`link set ${tap} up`);
    }
    namespace.ip('addr add 10.9.0.1/24 dev tapquiet');
    const reader = await NetlinkReader.start(namespace, { receiveBufferBytes: 4096 });
    const before = reader.of('tapflaps');
    assert.deepEqual(before, ['down']);

    const { socketProcess } = reader;
    process.kill(socketProcess, 'SIGSTOP');
    namespace.attachAndDetach('tapflaps', 100, 2);
    namespace.ip('link del tapgoes');
    namespace.ip('tuntap add mode tap name tapcomes');
    namespace.ip('addr del 10.9.0.1/24 dev tapquiet');
    namespace.ip('addr add 10.9.0.2/24 dev tapquiet');
    for (let mtu = 1300; mtu < 1340; mtu++) namespace.ip(`link set tapquiet mtu ${mtu}`);
    process.kill(socketProcess, 'SIGCONT');

    await until('the new interface', () => reader.of('tapcomes').length > 0);
    await until('the end of the old one', () => reader.of('tapgoes').at(-1) === 'gone');
    await until('its new address', () => reader.addresses.includes('-10.9.0.1'));
    await until('the last flap', () => reader.of('tapflaps').length >= 201);
    namespace.ip('link set tapflaps mtu 1400');
    namespace.ip('link del tapflaps');
    await until('its end', () => reader.of('tapflaps').at(-1) === 'gone');
    assert.deepEqual(reader.of('tapflaps'), ['down', ...alternating('up', 200), 'gone']);
    assert.deepEqual(reader.of('tapquiet'), ['down']);
    assert.ok(reader.addresses.includes('+10.9.0.2'));
    assert.ok((await reader.figures()).overruns > 0, 'the kernel dropped messages');
    assert.ok(reader.lines.some((line) => line.kind === 'log' && /dropped/.test(line.message)));
    assert.equal(await reader.stop(), 0, reader.errors);
    await namespace.close();
  });

  it('are none where only the main thread is busy', async () => {
    const namespace = await NetNamespace.create();
    namespace.ip('link add veth1 type veth peer name peer1');
    namespace.ip('link set veth1 up');
    const reader = await NetlinkReader.start(namespace);
    const before = reader.of('veth1').length;
    process.kill(reader.pid, 'SIGSTOP');
    namespace.exec(
      'sh',
      '-c',
      'for i in $(seq 1500); do printf "link set peer1 up\nlink set peer1 down\n"; done | ip -batch -',
    );
    process.kill(reader.pid, 'SIGCONT');
    await until('the last flap', () => reader.of('veth1').length >= before + 3000);
    assert.deepEqual(reader.of('veth1').slice(before), alternating('up', 3000));
    assert.equal((await reader.figures()).overruns, 0);
    assert.equal(await reader.stop(), 0, reader.errors);
    await namespace.close();
  });

  it('with the process that held the socket are made good too', async () => {
    const namespace = await NetNamespace.create();
    namespace.ip('tuntap add mode tap name tapflaps');
    namespace.ip('link set tapflaps up');
    const reader = await NetlinkReader.start(namespace);
    process.kill(reader.socketProcess, 'SIGKILL');
    namespace.attachAndDetach('tapflaps', 10, 2);
    await until('the last flap', () => reader.of('tapflaps').length >= 21);
    assert.deepEqual(reader.of('tapflaps'), ['down', ...alternating('up', 20)]);
    assert.ok(reader.lines.some((line) => line.kind === 'log' && /opening another one/.test(line.message)));
    assert.equal(await reader.stop(), 0, reader.errors);
    await namespace.close();
  });

  it('do not leave a dump that interfaces changed under taken for the truth (C14)', async () => {
    const namespace = await NetNamespace.create();
    const many = Array.from({ length: 200 }, (_, i) => `link add v${i} type veth peer name p${i}`);
    namespace.exec('sh', '-c', `printf '${many.join('\\n')}\\n' | ip -batch -`);
    const churn = namespace.spawn(
      'sh',
      [
        '-c',
        "while :; do printf 'link add x type veth peer name y\\nlink del x\\n%.0s' 1 2 3 4 5 6 7 8 | ip -batch -; done",
      ],
      { stdio: 'ignore' },
    );
    const wasInterrupted = (reader: NetlinkReader): boolean =>
      reader.lines.some((line) => line.kind === 'log' && line.why === 'interrupted');
    const reader = await until('a dump that is interrupted', async () => {
      const attempt = NetlinkReader.spawn(namespace);
      await until(
        'anything',
        () => attempt.lines.some(({ kind }) => kind === 'inSync') || wasInterrupted(attempt),
      );
      if (wasInterrupted(attempt)) return attempt;
      await attempt.stop();
      return null;
    });
    const ended = new Promise((resolve) => churn.once('exit', resolve));
    churn.kill('SIGKILL');
    await ended;
    await until('a whole dump', () => reader.lines.some(({ kind }) => kind === 'inSync'));
    namespace.exec('sh', '-c', 'ip link del x 2>/dev/null; ip link add last type veth peer name tsal');
    await until('the last interface', () => reader.of('last').length > 0);
    const there = new Set<string>();
    const names = new Map<number, string>();
    for (const line of reader.lines) {
      if (line.kind === 'link') names.set(line.ifindex, line.name);
      if (line.kind === 'gone') names.delete(line.ifindex);
    }
    for (const name of names.values()) there.add(name);
    const real = namespace
      .exec('sh', '-c', 'ip -o link | cut -d" " -f2 | cut -d@ -f1 | tr -d :')
      .trim()
      .split('\n');
    assert.deepEqual([...there].sort(), real.sort());
    assert.equal(await reader.stop(), 0, reader.errors);
    await namespace.close();
  });
});
