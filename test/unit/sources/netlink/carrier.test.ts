import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type LinkCounters, Links } from '../../../../src/sources/netlink/links.js';
import type { LinkMessage } from '../../../../src/sources/netlink/messages.js';
import { KernelModel, type Meanwhile } from './kernel-model.js';

type Step = (kernel: KernelModel) => void;

const few = fc.nat({ max: 3 });
const meanwhile: fc.Arbitrary<Meanwhile> = fc.record({ afterCarrier: few, afterUps: few });
const quiet: Meanwhile = { afterCarrier: 0, afterUps: 0 };

function steps({ admin, gaps }: { admin: boolean; gaps: boolean }): fc.Arbitrary<Step[]> {
  const when = gaps ? meanwhile : fc.constant(quiet);
  return fc.array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constant((kernel: KernelModel) => kernel.toggleCarrier()) },
      { weight: admin ? 1 : 0, arbitrary: fc.constant((kernel: KernelModel) => kernel.toggleAdmin()) },
      { weight: 2, arbitrary: when.map((gap) => (kernel: KernelModel) => kernel.linkwatch(gap)) },
      { weight: 2, arbitrary: when.map((gap) => (kernel: KernelModel) => kernel.message(gap)) },
    ),
    { maxLength: 60 },
  );
}

const start = fc.record({
  adminUp: fc.boolean(),
  carrier: fc.boolean(),
  ups: fc.constantFrom(0, 5, 0xffff_fffe),
  downs: fc.constantFrom(0, 4, 0xffff_ffff),
});

/** What is told of the kernel's messages, without what the first one says; and the last counters for the journal. */
function told(messages: readonly LinkMessage[], before?: LinkCounters) {
  const changes: boolean[] = [];
  let counters: LinkCounters | undefined;
  const links = new Links(
    {
      seen: (_ifindex, _name, running) => changes.push(running),
      gone: () => assert.fail('the interface was there all the time'),
      recovered: () => undefined,
      counters: (now) => {
        counters = now;
      },
    },
    true,
  );
  if (before !== undefined) links.remember(before);
  for (const message of messages) links.changed(message);
  return { changes: changes.slice(1), counters };
}

/** Everything has happened: the state has caught up, and two messages say the same. */
function settle(kernel: KernelModel): void {
  kernel.linkwatch();
  kernel.message();
  kernel.message();
}

describe("every change of an interface's carrier", () => {
  it('is told once and in order, whatever the kernel merges and however late IFF_RUNNING is', () => {
    fc.assert(
      fc.property(start, steps({ admin: true, gaps: true }), (from, course) => {
        const kernel = new KernelModel(from);
        kernel.message();
        for (const step of course) step(kernel);
        settle(kernel);
        assert.deepEqual(told(kernel.messages).changes, kernel.changes);
      }),
      { numRuns: 5000 },
    );
  });

  it('that came while flapd was away is told when it comes back, and what was told before is not told again', () => {
    fc.assert(
      fc.property(
        start,
        steps({ admin: true, gaps: false }),
        // Nobody is an administrator meanwhile: that would leave no trace in the counters.
        steps({ admin: false, gaps: false }),
        (from, course, away) => {
          const kernel = new KernelModel(from);
          kernel.message();
          for (const step of course) step(kernel);
          const before = told(kernel.messages);
          for (const step of away) step(kernel);
          kernel.messages.length = 0; // nobody heard them
          settle(kernel);
          const after = told(kernel.messages, before.counters);
          assert.deepEqual([...before.changes, ...after.changes], kernel.changes);
        },
      ),
      { numRuns: 3000 },
    );
  });
});
