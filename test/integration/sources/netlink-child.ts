/** The netlink source by itself, in whatever network namespace this is: what it tells comes out as lines of JSON. */
import type { LinkCounters } from '../../../src/sources/netlink/links.js';
import { NetlinkSource } from '../../../src/sources/netlink/netlink.js';

export interface ChildOptions {
  readonly receiveBufferBytes: number;
  readonly carrierCounters: boolean;
  readonly remember: readonly LinkCounters[];
  /** Throws when it is told of this interface. */
  readonly throwAt: string | null;
}

export type ChildLine =
  | { readonly kind: 'link'; readonly ifindex: number; readonly name: string; readonly running: boolean }
  | { readonly kind: 'gone'; readonly ifindex: number }
  | {
      readonly kind: 'address';
      readonly ifindex: number;
      readonly address: string;
      readonly present: boolean;
    }
  | { readonly kind: 'inSync' }
  | ({ readonly kind: 'counters' } & LinkCounters)
  | { readonly kind: 'log'; readonly message: string; readonly why?: string }
  | { readonly kind: 'figures'; readonly overruns: number; readonly recoveredFlaps: number };

const options = JSON.parse(process.argv[2]!) as ChildOptions;
const tell = (line: ChildLine): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`);
};
const log = (fields: object, message: string): void => tell({ kind: 'log', ...fields, message });

const source = new NetlinkSource({
  receiveBufferBytes: options.receiveBufferBytes,
  carrierCounters: options.carrierCounters,
  nowUs: () => Date.now() * 1000,
  log: { debug: log, info: log, warn: log },
  events: {
    linkSeen: (ifindex, name, running) => {
      if (name === options.throwAt) throw new Error(`a bug that ${name} woke`);
      tell({ kind: 'link', ifindex, name, running });
    },
    linkGone: (ifindex) => tell({ kind: 'gone', ifindex }),
    address: (ifindex, address, present) => tell({ kind: 'address', ifindex, address, present }),
    inSync: () => tell({ kind: 'inSync' }),
    counters: (counters) => tell({ kind: 'counters', ...counters }),
  },
});
for (const counters of options.remember) source.remember(counters);
await source.start();

// A line in asks for the figures; the end of the input ends it, and nothing may keep it from ending then.
process.stdin.on('data', () => {
  const { overruns, recoveredFlaps } = source.figures;
  tell({ kind: 'figures', overruns, recoveredFlaps });
});
process.stdin.on('end', () => void source.stop());
