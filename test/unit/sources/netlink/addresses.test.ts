import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Addresses } from '../../../../src/sources/netlink/addresses.js';

function addresses() {
  const told: string[] = [];
  const made = new Addresses((ifindex, address, present) =>
    told.push(`${ifindex} ${present ? '+' : '-'}${address}`),
  );
  return { made, told };
}

const one = { ifindex: 4, address: '10.0.0.1', prefixLength: 24 };
const two = { ifindex: 4, address: '10.0.0.2', prefixLength: 24 };

describe('the addresses of an interface', () => {
  it('come and go, each told once', () => {
    const { made, told } = addresses();
    made.changed(one, true);
    made.changed(one, true);
    made.changed(one, false);
    made.changed(one, false);
    assert.deepEqual(told, ['4 +10.0.0.1', '4 -10.0.0.1']);
  });

  it('are there until they are gone with every prefix length', () => {
    const { made, told } = addresses();
    made.changed(one, true);
    made.changed({ ...one, prefixLength: 32 }, true);
    made.changed(one, false);
    assert.deepEqual(told, ['4 +10.0.0.1']);
    made.changed({ ...one, prefixLength: 32 }, false);
    assert.deepEqual(told, ['4 +10.0.0.1', '4 -10.0.0.1']);
  });

  it('that neither a dump nor news name are gone', () => {
    const { made, told } = addresses();
    made.changed(one, true);
    made.changed(two, true);
    made.beginDump();
    made.dumped(two);
    made.endDump();
    assert.deepEqual(told.slice(2), ['4 -10.0.0.1']);
  });

  it('do not come back by a dump that their end overtook', () => {
    const { made, told } = addresses();
    made.changed(one, true);
    made.beginDump();
    made.changed(one, false);
    made.dumped(one);
    made.endDump();
    assert.deepEqual(told, ['4 +10.0.0.1', '4 -10.0.0.1']);
  });

  it('go with it, and are told anew when its number comes again', () => {
    const { made, told } = addresses();
    made.changed(one, true);
    made.linkGone(4);
    made.changed(one, true);
    assert.deepEqual(told, ['4 +10.0.0.1', '4 +10.0.0.1']);
  });
});
