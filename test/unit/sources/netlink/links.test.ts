import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type LinkCounters, Links } from '../../../../src/sources/netlink/links.js';

type Told = string;

function links(carrierCounters = true) {
  const told: Told[] = [];
  let recovered = 0;
  const made = new Links(
    {
      seen: (ifindex, name, running) => told.push(`${ifindex} ${name} ${running ? 'up' : 'down'}`),
      gone: (ifindex) => told.push(`${ifindex} gone`),
      recovered: (changes) => {
        recovered += changes;
      },
    },
    carrierCounters,
  );
  /** A message about interface 4: running, and the counters of ups and downs. */
  const message = (
    running: boolean,
    ups: number,
    downs: number,
    adminUp = true,
    name = 'tap1',
    ifindex = 4,
  ): Told[] => {
    const from = told.length;
    made.changed({ ifindex, name, adminUp, running, carrierUpCount: ups, carrierDownCount: downs });
    return told.slice(from).map((line) => line.replace('4 tap1 ', ''));
  };
  return { links: made, told, message, recovered: () => recovered };
}

describe('flaps that the kernel merges', () => {
  it('are told from the counters: running before and after, and three of each between', () => {
    const { message, recovered } = links();
    message(true, 1, 0);
    assert.deepEqual(message(true, 4, 3), ['down', 'up', 'down', 'up', 'down', 'up']);
    assert.equal(recovered(), 6);
  });

  it('end in the state that the message gives', () => {
    const { message } = links();
    message(true, 1, 0);
    assert.deepEqual(message(false, 3, 3), ['down', 'up', 'down', 'up', 'down']);
  });

  it('are told once where IFF_RUNNING follows the carrier late', () => {
    const { message } = links();
    message(true, 1, 0);
    // The carrier went down and up again; the flag only has the first.
    assert.deepEqual(message(false, 2, 1), ['down']);
    assert.deepEqual(message(true, 2, 1), ['up']);
    assert.deepEqual(message(true, 2, 1), []);
  });

  it('are told once where the flag has not followed at all yet', () => {
    const { message } = links();
    message(true, 1, 0);
    assert.deepEqual(message(true, 1, 1), []);
    assert.deepEqual(message(false, 1, 1), ['down']);
    assert.deepEqual(message(false, 2, 1), []);
    assert.deepEqual(message(true, 2, 1), ['up']);
  });

  it("are not made up of an administrator's down and up, which the counters do not count", () => {
    const { message, recovered } = links();
    message(true, 1, 0);
    assert.deepEqual(message(false, 1, 0, false), ['down']);
    assert.deepEqual(message(true, 1, 0), ['up']);
    assert.deepEqual(message(true, 2, 1), ['down', 'up']);
    assert.equal(recovered(), 2);
  });

  it('are none while an administrator has switched the interface off', () => {
    const { message } = links();
    message(false, 1, 1, false);
    assert.deepEqual(message(false, 5, 5, false), []);
    assert.deepEqual(message(true, 6, 5), ['up']);
  });

  it('are none of a counter that begins anew', () => {
    const { message } = links();
    message(true, 100, 99);
    assert.deepEqual(message(true, 1, 0), []);
    assert.deepEqual(message(true, 2, 1), ['down', 'up']);
  });

  it('are not looked for where that is switched off', () => {
    const { message } = links(false);
    message(true, 1, 0);
    assert.deepEqual(message(true, 4, 3), []);
    assert.deepEqual(message(false, 4, 4), ['down']);
  });

  it('are not looked for where the kernel gives no counters', () => {
    const { message } = links();
    message(true, Number.NaN, Number.NaN);
    assert.deepEqual(message(false, Number.NaN, Number.NaN), ['down']);
  });
});

describe('what happened while flapd was away', () => {
  const before: LinkCounters = { ifindex: 4, name: 'tap1', running: true, upCount: 5, downCount: 4 };

  it('to an interface that is still there is told when it is first seen', () => {
    const { links: made, message } = links();
    made.remember(before);
    assert.deepEqual(message(true, 7, 6), ['up', 'down', 'up', 'down', 'up']);
  });

  it('is nothing where the counters have not moved', () => {
    const { links: made, message } = links();
    made.remember(before);
    assert.deepEqual(message(true, 5, 4), ['up']);
  });

  it('is not concluded from another interface with the same number', () => {
    const { links: made, message } = links();
    made.remember({ ...before, name: 'tap9' });
    assert.deepEqual(message(true, 7, 6), ['up']);
  });

  it('is not concluded from counters that began anew', () => {
    const { links: made, message } = links();
    made.remember(before);
    assert.deepEqual(message(false, 1, 1), ['up', 'down']);
  });
});

describe('the interfaces', () => {
  it('that neither a dump nor a later message names are gone', () => {
    const { links: made, message, told } = links();
    message(true, 1, 0);
    message(true, 1, 0, true, 'tap2', 5);
    message(true, 1, 0, true, 'tap3', 6);
    made.beginDump();
    message(true, 1, 0);
    message(true, 1, 0, true, 'tap3', 6);
    const from = told.length;
    made.endDump();
    assert.deepEqual(told.slice(from), ['5 gone']);
    assert.equal(made.size, 2);
  });

  it('keep their number when they are renamed', () => {
    const { message, told } = links();
    message(true, 1, 0);
    message(true, 1, 0, true, 'tap9');
    assert.deepEqual(told, ['4 tap1 up', '4 tap9 up']);
  });
});
