/** What a soak does, round by round, by its seed. Pure. */
import type { WorkerFault } from '../../src/etcd/task.js';
import { Random } from '../../src/storm/plan/random.js';

/** What is done to flapd from outside while a storm rages. */
export type Pest =
  | { readonly kind: 'hangup' }
  | { readonly kind: 'freeze'; readonly ms: number }
  | { readonly kind: 'worker'; readonly fault: WorkerFault };

export type Round =
  /** `flapd storm` with these arguments, and after each pause the next pest, over and over. */
  | {
      readonly kind: 'storm';
      readonly name: string;
      readonly args: readonly string[];
      readonly pests: readonly Pest[];
    }
  /** Three members of etcd and flapd, on a network that is cut so often. */
  | { readonly kind: 'partitions'; readonly name: string; readonly seed: number; readonly cuts: number };

const workerFaults: readonly WorkerFault[] = ['throw', 'throwOutside', 'exit', 'outOfMemory', 'hang'];

/** Endless. `root`: network namespaces can be made. */
export function* planSoak(seed: number, root: boolean): Generator<Round> {
  const random = new Random(seed);
  const kinds = root ? [killed, pestered, interfaces, overrun, partitions] : [killed, pestered];
  for (;;) {
    // Each kind in turn, in an order of its own each time: none is left out for long.
    const order = [...kinds];
    while (order.length > 0) yield order.splice(random.below(order.length), 1)[0]!(random);
  }
}

function size(random: Random, endpoints: number, transitions: number): string[] {
  return [
    '--etcd-embedded',
    `--seed=${random.below(2 ** 31)}`,
    `--endpoints=${endpoints + random.below(endpoints)}`,
    `--transitions=${transitions + random.below(transitions)}`,
  ];
}

function killed(random: Random): Round {
  const args = [...size(random, 100, 20_000), '--chaos', `--kills=${10 + random.below(30)}`];
  return { kind: 'storm', name: 'flapd and etcd killed', args, pests: [] };
}

function pestered(random: Random): Round {
  const at = (from: number): string => (from + random.next() * 0.3).toFixed(3);
  const args = [
    ...size(random, 100, 20_000),
    '--flap-rate=1500',
    `--etcd-kill-at=${at(0.1)}`,
    `--etcd-stop-at=${at(0.5)}`,
    `--etcd-stop-for=${1 + random.below(5)}`,
  ];
  const pests = Array.from({ length: 12 }, (): Pest => {
    switch (random.below(3)) {
      case 0:
        return { kind: 'hangup' };
      case 1:
        return { kind: 'freeze', ms: 100 + random.below(3000) };
      default:
        return { kind: 'worker', fault: workerFaults[random.below(workerFaults.length)]! };
    }
  });
  return {
    kind: 'storm',
    name: 'flapd frozen and told to reload, its workers failing, etcd killed and frozen',
    args,
    pests,
  };
}

function interfaces(random: Random): Round {
  const args = [...size(random, 20, 1000), '--via=netlink', '--chaos', '--removals=0'];
  return { kind: 'storm', name: 'interfaces, flapd and etcd killed', args, pests: [] };
}

function overrun(random: Random): Round {
  const args = [
    ...size(random, 20, 1000),
    '--via=netlink',
    '--removals=0',
    '--set=netlink.receiveBuffer=4096',
  ];
  return { kind: 'storm', name: 'interfaces, a netlink buffer too small', args, pests: [] };
}

function partitions(random: Random): Round {
  return {
    kind: 'partitions',
    name: 'a network that is cut',
    seed: random.below(2 ** 31),
    cuts: 4 + random.below(4),
  };
}
