import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type Definition, Deriver } from '../../../src/endpoints/derive.js';
import { type EndpointId, idKey } from '../../../src/endpoints/id.js';
import { Source, Status, type StatusName, statusName } from '../../../src/endpoints/status.js';
import { type Item, Ledger, type LedgerLimits, type Outgoing } from '../../../src/felix-driver/ledger.js';

const limits: LedgerLimits = { endpointItemsMax: 1000, bytesMax: 1_000_000 };

function vm(n: number): EndpointId {
  return { kind: 'workload', orchestrator: 'o', workload: `vm${n}`, endpoint: 'e' };
}

const told = (status: StatusName): Item => ({ kind: 'told', status: Status[status], atUs: 1 });
const defined = (what: string): Item => ({ kind: 'defined', content: Buffer.from(what), atUs: 1 });
const removed: Item = { kind: 'removed', atUs: 1 };
const inSync: Item = { kind: 'inSync', atUs: 1 };

function name({ id, item }: Outgoing): string {
  const who = id?.kind === 'workload' ? `${id.workload} ` : '';
  if (item.kind === 'told') return who + statusName(item.status);
  if (item.kind === 'defined') return who + Buffer.from(item.content).toString();
  return who + item.kind;
}

/** All that may be told now, without a word from flapd. */
function pull(ledger: Ledger): Outgoing[] {
  const all: Outgoing[] = [];
  for (let one = ledger.next(); one !== null; one = ledger.next()) all.push(one);
  return all;
}

/** The same, acknowledged at once, until nothing is left. */
function tellAll(ledger: Ledger): string[] {
  const all: string[] = [];
  for (let one = ledger.next(); one !== null; one = ledger.next()) {
    all.push(name(one));
    ledger.acknowledged(one.sequenceNumber!);
  }
  return all;
}

describe('what flapd is told', () => {
  it('is one thing of each endpoint at a time, in the order in which it was seen', () => {
    const ledger = new Ledger(limits);
    for (const status of ['up', 'down', 'up'] as const) ledger.see(vm(1), told(status));
    ledger.see(vm(2), defined('D'));
    ledger.see(null, inSync);
    ledger.connected();
    const first = pull(ledger);
    assert.deepEqual(first.map(name), ['vm1 up', 'vm2 D', 'inSync']);
    ledger.acknowledged(first[0]!.sequenceNumber!);
    assert.deepEqual(pull(ledger).map(name), ['vm1 down']);
    assert.equal(ledger.untold, 4);
    ledger.acknowledged(first.at(-1)!.sequenceNumber! + 1);
    assert.deepEqual(tellAll(ledger), ['vm1 up']);
    assert.equal(ledger.untold, 0);
  });

  it('is nothing twice: a definition comes again with each change of a policy', () => {
    const ledger = new Ledger(limits);
    const items = [
      defined('D'),
      defined('D'),
      told('up'),
      told('up'),
      defined('D'),
      told('down'),
      defined('E'),
    ];
    for (const item of items) ledger.see(vm(1), item);
    assert.deepEqual(tellAll(ledger), ['vm1 D', 'vm1 up', 'vm1 down', 'vm1 E']);
    // After a removal it is news.
    for (const item of [removed, removed, defined('E'), told('removed'), defined('E')])
      ledger.see(vm(1), item);
    assert.deepEqual(tellAll(ledger), ['vm1 removed', 'vm1 E', 'vm1 removed', 'vm1 E']);
  });

  it('begins, on a new connection, with what was told so far, and says again what was not acknowledged', () => {
    const ledger = new Ledger(limits);
    ledger.see(vm(1), defined('D'));
    ledger.see(null, inSync);
    tellAll(ledger);
    for (const status of ['up', 'down', 'up'] as const) ledger.see(vm(1), told(status));
    ledger.see(vm(2), told('up'));
    ledger.acknowledged(
      pull(ledger).find(({ id }) => id !== null && idKey(id) === idKey(vm(1)))!.sequenceNumber!,
    );
    assert.deepEqual(pull(ledger).map(name), ['vm1 down']); // told, not acknowledged; nor is vm2's
    ledger.see(vm(3), told('up'));
    ledger.connected();
    assert.deepEqual([...ledger.snapshot()].map(name), ['vm1 down', 'vm1 D', 'inSync', 'vm2 up']);
    assert.deepEqual(new Set(pull(ledger).map(name)), new Set(['vm1 down', 'vm2 up', 'vm3 up']));
  });

  it('of a removal that was not acknowledged is that it is gone', () => {
    const ledger = new Ledger(limits);
    ledger.see(vm(1), defined('D'));
    tellAll(ledger);
    ledger.see(vm(1), removed);
    pull(ledger);
    ledger.connected();
    assert.deepEqual([...ledger.snapshot()], []);
    assert.deepEqual(tellAll(ledger), ['vm1 removed']);
    assert.equal(ledger.subjects, 0);
  });

  it('of the dataplane being alive is the latest only, and never an old one again', () => {
    const ledger = new Ledger(limits);
    for (let i = 0; i < 5; i++) ledger.see(null, { kind: 'heartbeat', content: Buffer.from([i]), atUs: i });
    const [one, ...others] = pull(ledger);
    assert.deepEqual(others, []);
    assert.equal(one!.item.atUs, 4);
    ledger.connected();
    assert.deepEqual(pull(ledger), []);
    assert.equal(ledger.dropped, 0);
  });
});

describe('what waits for flapd', () => {
  it('is the final state alone, of an endpoint that has more than its share', () => {
    const ledger = new Ledger({ ...limits, endpointItemsMax: 10 });
    ledger.see(vm(1), defined('D'));
    tellAll(ledger);
    ledger.see(vm(2), told('up'));
    ledger.see(vm(2), told('down'));
    for (let i = 0; i < 1001; i++) ledger.see(vm(1), told(i % 2 === 0 ? 'up' : 'down'));
    assert.ok(ledger.waiting <= 12, `${ledger.waiting} wait`);
    assert.ok(ledger.dropped > 900);
    const heard = tellAll(ledger);
    assert.deepEqual(
      heard.filter((one) => one.startsWith('vm2')),
      ['vm2 up', 'vm2 down'],
    );
    assert.equal(heard.filter((one) => one.startsWith('vm1')).at(-1), 'vm1 up');
    assert.equal(ledger.dropped + heard.length, 1003);
  });

  it('is bounded however many endpoints come and go', () => {
    const ledger = new Ledger({ ...limits, bytesMax: 20_000 });
    for (let i = 0; i < 10_000; i++)
      for (const item of [defined('D'), told('up'), removed]) ledger.see(vm(i), item);
    assert.ok(
      ledger.waiting < 200 && ledger.subjects < 200,
      `${ledger.waiting} wait, ${ledger.subjects} subjects`,
    );
    ledger.connected();
    tellAll(ledger);
    assert.equal(ledger.subjects, 0);
  });

  const finals: [string, Item[], Item[], string[]][] = [
    ['a new status', [defined('D')], [told('up'), told('down')], ['vm1 down']],
    ['another definition', [defined('D'), told('up')], [defined('E'), defined('F')], ['vm1 F']],
    ['gone', [defined('D'), told('up')], [told('down'), removed], ['vm1 removed']],
    ['gone and back', [defined('D'), told('up')], [removed, defined('D')], ['vm1 removed', 'vm1 D']],
    ['gone, back and told', [defined('D')], [removed, defined('E'), told('up')], ['vm1 E', 'vm1 up']],
    ['told alone', [defined('D')], [removed, told('up')], ['vm1 removed', 'vm1 up']],
    ['never there', [], [defined('D'), told('up'), removed], []],
  ];
  for (const [what, before, after, expected] of finals) {
    it(`leads from what was told to what is: ${what}`, () => {
      const ledger = new Ledger({ ...limits, endpointItemsMax: after.length - 1 });
      for (const item of before) ledger.see(vm(1), item);
      tellAll(ledger);
      for (const item of after) ledger.see(vm(1), item);
      assert.deepEqual(tellAll(ledger), expected);
    });
  }
});

/** flapd: a deriver for each of its lives, and what it has accepted, which outlives them. */
class Flapd {
  readonly accepted: string[] = [];
  readonly #statuses = new Map<string, Status>();
  #deriver = this.#newDeriver();

  restart(): void {
    this.#deriver = this.#newDeriver();
  }

  hear(id: EndpointId | null, item: Item): void {
    if (id === null) return;
    if (item.kind === 'told') this.#deriver.told(id, item.status, 1);
    else if (item.kind === 'removed') this.#deriver.undefine(id, Source.felix, 1);
    else if (item.kind === 'defined') this.#deriver.define(definition(id), Source.felix, 1);
  }

  /** Of one endpoint. */
  of(id: EndpointId): string[] {
    return this.accepted.filter((one) => one.startsWith(`${idKey(id)} `));
  }

  #newDeriver(): Deriver {
    const deriver = new Deriver({
      interfaces: null,
      interfaceExclude: null,
      emit: (id, status) => {
        const key = idKey(id);
        if ((this.#statuses.get(key) ?? Status.removed) === status) return;
        this.#statuses.set(key, status);
        this.accepted.push(`${key} ${statusName(status)}`);
      },
    });
    deriver.interfacesRead(1); // none: what is defined and not told is down
    return deriver;
  }
}

function definition(id: EndpointId): Definition {
  return { kind: 'workload', id, interfaceName: 'tap', active: true };
}

type Step =
  | { readonly do: 'see'; readonly endpoint: number; readonly item: Item }
  | { readonly do: 'hear' | 'acknowledge' | 'break' | 'reconnect' | 'restart' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('see' as const),
      endpoint: fc.nat(2),
      item: fc.constantFrom(
        told('up'),
        told('down'),
        told('up'),
        told('down'),
        told('removed'),
        defined('D'),
        defined('E'),
        removed,
      ),
    }),
  },
  { weight: 6, arbitrary: fc.constant({ do: 'hear' as const }) },
  { weight: 4, arbitrary: fc.constant({ do: 'acknowledge' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'break' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'reconnect' as const }) },
  { weight: 1, arbitrary: fc.constant({ do: 'restart' as const }) },
);

describe('through restarts of flapd and broken connections', () => {
  it('each transition is accepted once, in order: as if it had been told directly', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const direct = new Flapd();
        const flapd = new Flapd();
        const ledger = new Ledger(limits);
        let heard: Outgoing[] = [];
        /** What is told no longer arrives; that will be noticed later. */
        let broken = false;
        const hear = (): boolean => {
          const one = ledger.next();
          if (one === null) return false;
          if (broken) return true;
          flapd.hear(one.id, one.item);
          heard.push(one);
          return true;
        };
        const connect = (): void => {
          heard = []; // their acknowledgements are lost
          broken = false;
          ledger.connected();
          for (const { id, item } of ledger.snapshot()) flapd.hear(id, item);
        };
        const acknowledge = (): void => {
          const one = heard.shift();
          if (one !== undefined) ledger.acknowledged(one.sequenceNumber!);
        };
        connect();
        for (const one of steps) {
          switch (one.do) {
            case 'see':
              direct.hear(vm(one.endpoint), one.item);
              ledger.see(vm(one.endpoint), one.item);
              break;
            case 'hear':
              hear();
              break;
            case 'acknowledge':
              acknowledge();
              break;
            case 'break':
              broken = true;
              break;
            case 'restart':
              flapd.restart();
              connect();
              break;
            case 'reconnect':
              connect();
          }
        }
        if (broken) connect();
        do while (heard.length > 0) acknowledge();
        while (hear());
        for (let i = 0; i < 3; i++) assert.deepEqual(flapd.of(vm(i)), direct.of(vm(i)));
        assert.equal(ledger.untold, 0);
      }),
      { numRuns: 5000 },
    );
  });
});
