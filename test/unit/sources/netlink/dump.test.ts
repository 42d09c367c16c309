import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { Dump } from '../../../../src/sources/netlink/dump.js';

describe('dumps', () => {
  let told: string[];
  let nowMs: number;
  let dump: Dump;

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] });
    told = [];
    nowMs = 50_000;
    dump = new Dump({
      ask: (kind, seq) => told.push(`ask ${kind} ${seq}`),
      begin: (kind) => told.push(`begin ${kind}`),
      end: (kind) => told.push(`end ${kind}`),
      complete: () => told.push('complete'),
      again: (why) => told.push(why),
      nowMs: () => nowMs,
    });
  });
  afterEach(() => {
    dump.stop();
    mock.timers.reset();
  });

  const pass = (ms: number): void => {
    for (let i = 0; i < ms; i++) {
      nowMs++;
      mock.timers.tick(1);
    }
  };
  const since = (action: () => void): string[] => {
    const from = told.length;
    action();
    return told.slice(from);
  };

  it('are of links, then of addresses', () => {
    dump.request();
    pass(1);
    dump.done(1, 0);
    dump.done(2, 0);
    assert.deepEqual(told, [
      'begin links',
      'ask links 1',
      'end links',
      'begin addresses',
      'ask addresses 2',
      'end addresses',
      'complete',
    ]);
    assert.equal(dump.seq, 0);
  });

  it('that were interrupted are never taken as whole, but asked for again, less and less often (C14)', () => {
    dump.request();
    pass(1);
    const waits: number[] = [];
    for (let seq = 1; seq <= 9; seq++) {
      dump.interrupted(seq);
      dump.done(seq, 0);
      const before = nowMs;
      while (dump.seq !== seq + 1) pass(1);
      waits.push(nowMs - before);
    }
    assert.deepEqual(waits, [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
    assert.ok(!told.includes('end links'));
    dump.done(10, 0);
    assert.ok(told.includes('end links'));
  });

  it('that the kernel refused or gave up are asked for again', () => {
    dump.request();
    pass(1);
    assert.deepEqual(
      since(() => {
        dump.done(1, 16); // EBUSY: an older dump is still being answered
        pass(20);
      }),
      ['refused', 'begin links', 'ask links 2'],
    );
  });

  it('of addresses that were interrupted are asked for again without those of links', () => {
    dump.request();
    pass(1);
    dump.done(1, 0);
    dump.interrupted(2);
    assert.deepEqual(
      since(() => {
        dump.done(2, 0);
        pass(20);
      }),
      ['interrupted', 'begin addresses', 'ask addresses 3'],
    );
  });

  it('are not ended by the end of an earlier one', () => {
    dump.request();
    pass(1);
    dump.request();
    assert.deepEqual(
      since(() => dump.done(1, 0)),
      [],
    );
    pass(1000);
    assert.deepEqual(
      since(() => {
        dump.interrupted(1);
        dump.done(2, 0);
      }),
      ['end links', 'begin addresses', 'ask addresses 3'],
    );
  });

  it('are made once a second at most, however often they are asked for', () => {
    for (let i = 0; i < 100; i++) {
      dump.request();
      pass(25);
    }
    assert.equal(told.filter((line) => line.startsWith('ask')).length, 3);
  });

  it('of which nothing comes for five seconds are asked for again, and those that go on are waited for', () => {
    dump.request();
    pass(1);
    for (let i = 0; i < 10; i++) {
      pass(4000);
      dump.answered();
    }
    assert.deepEqual(told, ['begin links', 'ask links 1']);
    pass(5001);
    assert.deepEqual(told.slice(2), ['silent', 'begin links', 'ask links 2']);
  });
});
