/** Partitions of a three-node etcd and of flapd from it: each in a network namespace, cut by nft (faults 6 and 7). */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { Course } from '../support/course.js';
import { type Etcd, type MemberHost, startCluster } from '../support/etcd.js';
import { keyOf } from '../support/host.js';
import { Network } from '../support/network.js';
import { until } from '../support/waiting.js';

interface Member {
  readonly etcd: Etcd;
  readonly host: MemberHost;
}

describe('a network that is cut', () => {
  let network: Network;
  let members: Member[];
  let flapdHost: MemberHost;

  before(async () => {
    network = await Network.create(4);
    flapdHost = network.hosts[3]!;
    const hosts = network.hosts.slice(0, 3);
    const etcds = await startCluster(3, { hosts });
    members = etcds.map((etcd, i) => ({ etcd, host: hosts[i]! }));
  });
  after(async () => {
    await Promise.all(members.map(({ etcd }) => etcd.close()));
    await network.close();
  });
  afterEach(async () => {
    network.heal();
    await Course.closeAll();
  });

  /** The leader that all agree on, and the two others. */
  const roles = async (): Promise<{ leader: Member; others: [Member, Member] }> => {
    const leader = await until('all members to have one leader', () => {
      const statuses = members.map(({ etcd }) => etcd.ctl('endpoint', 'status', '-w', 'fields'));
      const [leaders, own] = ['Leader', 'MemberID'].map((name) =>
        statuses.map((status) => new RegExp(`"${name}" : (\\d+)`).exec(status)?.[1]),
      );
      return new Set(leaders).size === 1 ? members[own!.indexOf(leaders![0])] : undefined;
    });
    const [first, second] = members.filter((member) => member !== leader);
    return { leader, others: [first!, second!] };
  };
  /** A flapd on a host of its own that knows of all members. Its history is read from one that stays with the majority. */
  const start = async ({ host, etcd }: Member): Promise<Course> => {
    etcd.ctl('del', '/calico', '--prefix');
    const { revision } = (JSON.parse(etcd.ctl('get', '/', '-w', 'json')) as { header: { revision: number } })
      .header;
    const course = await Course.start(await network.gate(host, etcd.port), {
      through: members.map((member) => member.etcd.endpoint).join(','),
      namespace: flapdHost.namespace,
      args: ['--set=workers=3'], // each begins with a member at random: the leader is among them more often than not
      fromRevision: revision + 1,
    });
    await course.flap(5);
    await course.verify();
    return course;
  };
  const notReady = (course: Course): Promise<unknown> =>
    until('flapd to be not ready', async () => !(await course.flapd.get('/readyz')).ready, {
      deadlineMs: 20_000,
    });

  it('between flapd and the leader only: the other members are used meanwhile', async () => {
    const { leader, others } = await roles();
    const course = await start(others[0]);
    network.part([flapdHost], [leader.host]);
    assert.ok(!network.reaches(flapdHost, leader.host, leader.etcd.port));
    assert.ok(network.reaches(flapdHost, others[0].host, others[0].etcd.port));
    await course.flap(20);
    await course.goesOn();
    network.heal();
    await course.end();
  });

  it('on one way only, so that answers of the leader are lost: the other members are used meanwhile', async () => {
    const { leader, others } = await roles();
    const course = await start(others[0]);
    network.drop(leader.host, flapdHost);
    assert.ok(!network.reaches(flapdHost, leader.host, leader.etcd.port));
    await course.flap(20);
    await course.goesOn();
    network.heal();
    await course.end();
  });

  it('between the leader and the other members: there is a new one, and all is written meanwhile', async () => {
    const { leader, others } = await roles();
    const course = await start(others[0]);
    network.part(
      [leader.host],
      others.map(({ host }) => host),
    );
    await course.flap(20);
    await course.goesOn();
    network.heal();
    await course.end();
  });

  it('between flapd with one member and the majority: nothing is written, and all once when it is healed', async () => {
    const { leader, others } = await roles();
    const course = await start(others[1]);
    const majority = [leader.host, others[1].host];
    network.part([flapdHost, others[0].host], majority);
    const written = course.times;
    await course.flap(20);
    await notReady(course);
    assert.equal(course.history.of(keyOf(0)).length, written);
    network.heal();
    await course.end();
  });

  it('between flapd with the leader and the majority: what the old leader took is not lost', async () => {
    const { leader, others } = await roles();
    const course = await start(others[0]);
    network.part(
      [flapdHost, leader.host],
      others.map(({ host }) => host),
    );
    await course.flap(20);
    await notReady(course);
    network.heal();
    await course.end();
  });

  it('between flapd and all members: it waits, and all is there once when it is healed', async () => {
    const { others } = await roles();
    const course = await start(others[0]);
    network.part(
      [flapdHost],
      members.map(({ host }) => host),
    );
    const written = course.times;
    await course.flap(20);
    await notReady(course);
    assert.equal(course.history.of(keyOf(0)).length, written);
    network.heal();
    await course.end();
  });
});
