/** A round of a soak on a network that is cut at random, again and again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../src/storm/plan/random.js';
import { Course } from '../support/course.js';
import { startCluster } from '../support/etcd.js';
import { Network } from '../support/network.js';

const healedMs = 2000;
const cutMsMax = 5000;

/** Returns how many transitions there were; throws an error that says what is missing or wrong. */
export async function runPartitions(seed: number, cuts: number): Promise<number> {
  const random = new Random(seed);
  const endpoints = 10;
  const network = await Network.create(4);
  const hosts = network.hosts.slice(0, 3);
  const members = await startCluster(3, { hosts });
  try {
    const course = await Course.start(await network.gate(hosts[0]!, members[0]!.port), {
      endpoints,
      through: members.map(({ endpoint }) => endpoint).join(','),
      namespace: network.hosts[3]!.namespace,
    });
    await course.during(async () => {
      for (let i = 0; i < cuts; i++) {
        // Each host on one side or the other; where all are on one, nothing is cut for once.
        const sides = network.hosts.map(() => random.below(2));
        const side = network.hosts.filter((_, n) => sides[n] === 0);
        const other = network.hosts.filter((_, n) => sides[n] === 1);
        if (random.below(3) === 0 && side.length > 0 && other.length > 0) network.drop(side[0]!, other[0]!);
        else network.part(side, other);
        await sleep(random.below(cutMsMax));
        network.heal();
        await sleep(random.below(healedMs));
      }
    }, 20);
    await course.end();
    return course.times * endpoints;
  } finally {
    await Course.closeAll();
    await Promise.all(members.map((member) => member.close()));
    await network.close();
  }
}
