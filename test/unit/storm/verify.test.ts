import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Status } from '../../../src/endpoints/status.js';
import { type HistoryEvent, type Verdict, verify } from '../../../src/storm/verify.js';

const { up, down, removed, error } = Status;

function history(...statuses: readonly (Status | null)[]): HistoryEvent[] {
  return statuses.map((status, i) => ({ key: 'a', status, revision: 10 + i }));
}

function judge(wanted: readonly Status[], events: readonly HistoryEvent[], confirmations = false): Verdict {
  return verify({ transitions: new Map([['a', wanted]]), initial: null, confirmations }, events);
}

function counts({ committed, lost, duplicated, reordered, confirmations }: Verdict): readonly number[] {
  return [committed, lost, duplicated, reordered, confirmations];
}

describe('the verdict on a history', () => {
  // wanted, found: committed, lost, duplicated, reordered, confirmations
  const cases: readonly (readonly [
    string,
    readonly Status[],
    readonly (Status | null)[],
    readonly number[],
  ])[] = [
    ['all there, in order', [down, up, removed], [down, up, removed], [3, 0, 0, 0, 0]],
    ['nothing sent, nothing there', [], [], [0, 0, 0, 0, 0]],
    ['nothing there', [down, up], [], [0, 2, 0, 0, 0]],
    ['the end is missing', [down, up, down], [down], [1, 2, 0, 0, 0]],
    ['a flap is missing in the middle', [up, down, up, removed], [up, removed], [2, 2, 0, 0, 0]],
    ['one is there twice', [down, up], [down, down, up], [2, 0, 1, 0, 0]],
    ['the last is there twice', [down, up], [down, up, up], [2, 0, 1, 0, 0]],
    ['a pair is there twice', [down, up], [down, up, down, up], [2, 0, 2, 0, 0]],
    ['two have changed places', [down, up, removed], [down, removed, up], [3, 0, 0, 2, 0]],
    ['one has become another', [down, up], [down, error], [1, 1, 1, 0, 0]],
    ['a value that nobody can read', [down, up], [down, null, up], [2, 0, 1, 0, 0]],
  ];
  for (const [name, wanted, found, expected] of cases) {
    it(`${name}`, () => assert.deepEqual(counts(judge(wanted, history(...found))), expected));
  }

  it('takes a status put once more for a confirming write, where there are such', () => {
    const events = history(down, down, up, up, up);
    assert.deepEqual(counts(judge([down, up], events, true)), [2, 0, 0, 0, 3]);
    assert.deepEqual(counts(judge([down, up], events, false)), [2, 0, 3, 0, 0]);
  });

  it('knows what a key said before', () => {
    const expected = { transitions: new Map([['a', [down]]]), initial: up, confirmations: true };
    assert.deepEqual(counts(verify(expected, history(up, down))), [1, 0, 0, 0, 1]);
  });

  it('counts a key of which nothing was sent', () => {
    const verdict = verify(
      { transitions: new Map(), initial: null, confirmations: false },
      history(up, down),
    );
    assert.deepEqual(counts(verdict), [0, 0, 2, 0, 0]);
    assert.match(verdict.differences.join(), /^a: nothing was sent/);
  });

  it('says where the first difference is', () => {
    const first = (wanted: readonly Status[], ...found: Status[]): string =>
      judge(wanted, history(...found)).differences.join();
    assert.equal(
      first([down, up], down, removed),
      'a: revision 11 is removed, where transition 2 of 2 (up) should be',
    );
    assert.equal(first([down, up], down), 'a: transition 2 of 2 (up) and what follows is not there');
    assert.equal(first([down], down, up), 'a: revision 11 is up, after all that was sent');
    assert.equal(first([down], down), '');
  });

  it('judges each key by itself, however their events are mixed', () => {
    const events: HistoryEvent[] = [
      { key: 'a', status: down, revision: 1 },
      { key: 'b', status: up, revision: 1 },
      { key: 'b', status: down, revision: 2 },
      { key: 'a', status: up, revision: 3 },
    ];
    const transitions = new Map([
      ['a', [down, up]],
      ['b', [up, down, up]],
    ]);
    assert.deepEqual(
      counts(verify({ transitions, initial: null, confirmations: false }, events)),
      [4, 1, 0, 0, 0],
    );
  });

  it('is all 0 for equal sequences, and never for others', () => {
    const statuses = fc.array(fc.constantFrom<Status>(up, down, removed), { maxLength: 12 });
    fc.assert(
      fc.property(statuses, statuses, (wanted, found) => {
        const { committed, lost, duplicated, reordered } = judge(wanted, history(...found));
        const equal = wanted.length === found.length && wanted.every((status, i) => status === found[i]);
        assert.equal(lost + duplicated + reordered === 0, equal);
        assert.equal(committed + lost, wanted.length);
        assert.equal(committed + duplicated, found.length);
      }),
    );
  });
});
