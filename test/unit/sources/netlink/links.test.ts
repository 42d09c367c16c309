import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type LinkCounters, Links } from '../../../../src/sources/netlink/links.js';
import type { LinkMessage } from '../../../../src/sources/netlink/messages.js';
import { linkMessage } from './link-message.js';

function links(carrierCounters = true) {
  const told: string[] = [];
  const journaled: LinkCounters[] = [];
  let recovered = 0;
  const made = new Links(
    {
      seen: (ifindex, name, running) => told.push(`${ifindex} ${name} ${running ? 'up' : 'down'}`),
      gone: (ifindex) => told.push(`${ifindex} gone`),
      recovered: (changes) => {
        recovered += changes;
      },
      counters: (counters) => journaled.push(counters),
    },
    carrierCounters,
  );
  /** What is told, less the name of the interface that most tests are about. */
  const since = (action: () => void): string[] => {
    const from = told.length;
    action();
    return told.slice(from).map((line) => line.replace('4 tap1 ', ''));
  };
  /** News of interface 4: running or not, and the counters of ups and downs. */
  const news = (running: boolean, ups: number, downs: number, more: Partial<LinkMessage> = {}): string[] =>
    since(() =>
      made.changed(linkMessage({ running, carrierUpCount: ups, carrierDownCount: downs, ...more })),
    );
  return { links: made, told, since, news, journaled, recovered: () => recovered };
}

describe('flaps that the kernel merges', () => {
  it('are told from the counters: running before and after, and three of each between', () => {
    const { news, recovered } = links();
    news(true, 1, 0);
    assert.deepEqual(news(true, 4, 3), ['down', 'up', 'down', 'up', 'down', 'up']);
    assert.equal(recovered(), 6);
  });

  it('end in the state that the message gives', () => {
    const { news, recovered } = links();
    news(true, 1, 0);
    assert.deepEqual(news(false, 3, 3), ['down', 'up', 'down', 'up', 'down']);
    assert.equal(recovered(), 4); // the last one IFF_RUNNING shows by itself
  });

  it('are told once where IFF_RUNNING follows the carrier late', () => {
    const { news } = links();
    news(true, 1, 0);
    // The carrier went down and up again; the flag only has the first.
    assert.deepEqual(news(false, 2, 1, { carrier: true }), ['down']);
    assert.deepEqual(news(true, 2, 1), ['up']);
    assert.deepEqual(news(true, 2, 1), []);
  });

  it('are told once where the flag has not followed at all yet', () => {
    const { news } = links();
    news(true, 1, 0);
    assert.deepEqual(news(true, 1, 1, { carrier: false }), []);
    assert.deepEqual(news(false, 1, 1), ['down']);
    assert.deepEqual(news(false, 2, 1, { carrier: true }), []);
    assert.deepEqual(news(true, 2, 1), ['up']);
  });

  it("are not made up of an administrator's down and up, which the counters do not count", () => {
    const { news, recovered } = links();
    news(true, 1, 0);
    assert.deepEqual(news(false, 1, 0, { adminUp: false, carrier: true }), ['down']);
    assert.deepEqual(news(true, 1, 0), ['up']);
    assert.deepEqual(news(true, 2, 1), ['down', 'up']);
    assert.equal(recovered(), 2);
  });

  it('are none while an administrator has switched the interface off, and leave nothing behind', () => {
    const { news } = links();
    news(true, 1, 0);
    assert.deepEqual(news(false, 1, 0, { adminUp: false, carrier: true }), ['down']);
    assert.deepEqual(news(false, 5, 5, { adminUp: false }), []);
    assert.deepEqual(news(false, 5, 5), []);
    assert.deepEqual(news(true, 6, 5), ['up']);
    // One flap, of which the flag shows one half late.
    assert.deepEqual(news(false, 7, 6, { carrier: true }), ['down']);
    assert.deepEqual(news(true, 7, 6), ['up']);
  });

  it('are none of an interface that something else holds back', () => {
    const { news } = links();
    news(false, 1, 1);
    assert.deepEqual(news(false, 2, 1, { carrier: true, heldBack: true }), []);
    assert.deepEqual(news(false, 2, 2), []);
    assert.deepEqual(news(false, 3, 2, { carrier: true, heldBack: true }), []);
    assert.deepEqual(news(true, 3, 2), ['up']);
  });

  it('are counted across the end of a counter', () => {
    const { news } = links();
    news(true, 0xffff_ffff, 0xffff_fffe);
    assert.deepEqual(news(true, 1, 0), ['down', 'up', 'down', 'up']);
  });

  it('are none of counters that make no sense', () => {
    const { news } = links();
    news(true, 1, 0);
    assert.deepEqual(news(false, 50, 0), ['down']);
    assert.deepEqual(news(false, 2_000_000_050, 2_000_000_000), []);
    assert.deepEqual(news(true, 2_000_000_051, 2_000_000_000), ['up']);
  });

  it('are told all where the first message was read in the moment of a change', () => {
    const { news } = links();
    news(true, 1, 1, { carrier: true }); // the carrier was read before it went, its counters after
    assert.deepEqual(news(false, 1, 1), ['down']);
    assert.deepEqual(news(true, 3, 2), ['up', 'down', 'up']);
  });

  it('are not looked for where that is switched off', () => {
    const { news, journaled } = links(false);
    news(true, 1, 0);
    assert.deepEqual(news(true, 4, 3), []);
    assert.deepEqual(news(false, 4, 4), ['down']);
    assert.deepEqual(journaled, []);
  });

  it('are not looked for where the kernel gives no counters', () => {
    const { news, journaled } = links();
    news(true, Number.NaN, Number.NaN);
    assert.deepEqual(news(false, Number.NaN, Number.NaN), ['down']);
    assert.deepEqual(journaled, []);
  });
});

describe('counters for the journal', () => {
  it('are told when they change, and say how far the changes are told', () => {
    const { news, journaled } = links();
    const base = { ifindex: 4, name: 'tap1' };
    news(true, 1, 0);
    news(true, 1, 0, { ifindex: 4 });
    news(true, 2, 2, { carrier: false });
    news(false, 2, 2);
    assert.deepEqual(journaled, [
      { ...base, running: true, upCount: 1, downCount: 0 },
      { ...base, running: true, upCount: 2, downCount: 1 },
      { ...base, running: false, upCount: 2, downCount: 2 },
    ]);
  });
});

describe('what happened while flapd was away', () => {
  const before: LinkCounters = { ifindex: 4, name: 'tap1', running: true, upCount: 5, downCount: 4 };

  it('to an interface that is still there is told when it is first seen', () => {
    const { links: made, news } = links();
    made.remember(before);
    assert.deepEqual(news(true, 7, 6), ['up', 'down', 'up', 'down', 'up']);
  });

  it('is nothing where the counters have not moved', () => {
    const { links: made, news } = links();
    made.remember(before);
    assert.deepEqual(news(true, 5, 4), ['up']);
  });

  it('is not concluded from another interface with the same number', () => {
    const { links: made, news } = links();
    made.remember({ ...before, name: 'tap9' });
    assert.deepEqual(news(true, 7, 6), ['up']);
  });

  it('is not concluded from counters that began anew', () => {
    const { links: made, news } = links();
    made.remember(before);
    assert.deepEqual(news(false, 1, 1), ['down']);
  });

  it('is not concluded where the counters are not to be used', () => {
    const { links: made, news } = links(false);
    made.remember(before);
    assert.deepEqual(news(false, 7, 7), ['down']);
  });
});

describe('the interfaces', () => {
  const tap = (n: number, running = true): LinkMessage =>
    linkMessage({
      ifindex: n,
      name: `tap${n}`,
      running,
      carrierUpCount: 1,
      carrierDownCount: running ? 0 : 1,
    });

  it('that neither a dump nor news name are gone', () => {
    const { links: made, since } = links();
    for (const n of [5, 6, 7]) made.changed(tap(n));
    made.beginDump();
    made.dumped(tap(5));
    made.changed(tap(7));
    assert.deepEqual(
      since(() => made.endDump()),
      ['6 gone'],
    );
    assert.equal(made.size, 2);
  });

  it('of a dump that did not end are not gone', () => {
    const { links: made, since } = links();
    for (const n of [5, 6]) made.changed(tap(n));
    made.beginDump();
    made.dumped(tap(5));
    made.beginDump();
    for (const n of [5, 6]) made.dumped(tap(n));
    assert.deepEqual(
      since(() => made.endDump()),
      [],
    );
  });

  it('are as the news says that overtook the dump', () => {
    const { links: made, since } = links();
    made.changed(tap(5));
    made.beginDump();
    made.changed(tap(5, false));
    assert.deepEqual(
      since(() => made.dumped(tap(5))),
      [],
    );
  });

  it('do not come back by a dump that their end overtook, and do by news', () => {
    const { links: made, since } = links();
    made.changed(tap(5));
    made.beginDump();
    made.deleted(5);
    assert.deepEqual(
      since(() => made.dumped(tap(5))),
      [],
    );
    assert.deepEqual(
      since(() => made.changed(tap(5))),
      ['5 tap5 up'],
    );
    assert.deepEqual(
      since(() => made.endDump()),
      [],
    );
  });

  it('keep their number when they are renamed', () => {
    const { news, told } = links();
    news(true, 1, 0);
    news(true, 1, 0, { name: 'tap9' });
    assert.deepEqual(told, ['4 tap1 up', '4 tap9 up']);
  });

  it('are others where their counters went back: the end of the first was lost', () => {
    const { news } = links();
    news(true, 100, 99);
    assert.deepEqual(news(true, 1, 0), ['4 gone', 'up']);
  });
});
