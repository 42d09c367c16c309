/**
 * What an interface's carrier did between two messages about it. Pure.
 *
 * IFF_RUNNING follows the carrier late: for up to a second the kernel merges what happens (net/core/link_watch.c), so
 * twenty detach/attach cycles of a tap, 2 ms apart, show one change. But each message carries counters of the ups and
 * the downs. They alternate, so the counters say exactly what the carrier did, and in which order.
 *
 * Each of those changes is told, once, and what is told ends in the state that the message gives. Where IFF_RUNNING has
 * not followed the carrier yet, the last change stays open, that is, uncounted, until it has. `upTold` and `downTold`
 * are the counters up to and without it, and `carrierTold` is the carrier there.
 *
 * The carrier does not decide while an administrator has switched the interface off, or something else holds it back:
 * what it does then is not told, and `carrierTold` and `running` may differ. The administrator's own doing needs no
 * counting, since there is a message for each.
 *
 * The counters are read without a lock, after the carrier and one after the other (rtnl_fill_ifinfo), so a change in
 * that very moment may be in one and not in another of the three. The counters are believed: there is another message
 * for each change. Two messages with the same counters prove the carrier itself.
 */
import type { LinkMessage } from './messages.js';

export interface CarrierState {
  /** As last told. */
  running: boolean;
  carrierTold: boolean;
  /** As of the last message. */
  adminUp: boolean;
  /** NaN: not known yet. */
  upTold: number;
  downTold: number;
  /** Of the last message. */
  upCount: number;
  downCount: number;
}

/** More changes than this between two messages are none: a guard against nonsense. */
const changesMax = 1_000_000;

/** Whether the counters went back, which those of one interface never do. They wrap at 32 bits. */
export function restartedSince(
  state: Readonly<Pick<CarrierState, 'upCount' | 'downCount'>>,
  message: Readonly<LinkMessage>,
): boolean {
  return (
    since(message.carrierUpCount, state.upCount) < 0 || since(message.carrierDownCount, state.downCount) < 0
  );
}

/**
 * Takes a message in. Returns how many changes of `running` it tells, alternating, from what it was before to what it
 * is in `state` now.
 */
export function follow(state: CarrierState, message: Readonly<LinkMessage>, useCounters: boolean): number {
  const { carrierUpCount, carrierDownCount, running } = message;
  if (!useCounters || Number.isNaN(carrierUpCount) || Number.isNaN(carrierDownCount)) {
    state.adminUp = message.adminUp;
    return become(state, running);
  }
  const same = carrierUpCount === state.upCount && carrierDownCount === state.downCount;
  const ups = since(carrierUpCount, state.upTold);
  let downs = since(carrierDownCount, state.downTold);
  let carrier = Number(state.carrierTold) + ups - downs;
  // A down whose up came between the reading of one counter and the other: the next message has both.
  const early = carrier === -1 && !same;
  if (early) {
    downs--;
    carrier = 0;
  }
  const known = !Number.isNaN(state.upTold) && ups >= 0 && downs >= 0 && ups + downs <= changesMax;
  const believable =
    known && (carrier === 0 || carrier === 1) && (!same || carrier === Number(message.carrier));
  state.upCount = carrierUpCount;
  state.downCount = carrierDownCount;
  return believable
    ? advance(state, message, carrier === 1, ups + downs, early)
    : advance(state, message, message.carrier, 0, false);
}

function advance(
  state: CarrierState,
  message: Readonly<LinkMessage>,
  carrier: boolean,
  changes: number,
  early: boolean,
): number {
  const { adminUp, heldBack, running } = message;
  const late = adminUp && !heldBack && running !== carrier;
  const decides = state.adminUp && state.carrierTold === state.running && !(adminUp && heldBack);
  let told = 0;
  if (decides) {
    told = late ? Math.max(0, changes - 1) : changes;
    if (told % 2 === 1) state.running = !state.running;
  }
  // Switched on again without a carrier, it may look running for a moment: that is a left-over.
  const leftOver = late && running && !state.running;
  if (!leftOver) told += become(state, running);
  const open = late && !leftOver;
  state.adminUp = adminUp;
  state.carrierTold = open ? running : carrier;
  state.upTold = state.upCount - (open && carrier ? 1 : 0);
  state.downTold = state.downCount - (open && !carrier ? 1 : 0) - (early ? 1 : 0);
  return told;
}

function become(state: CarrierState, running: boolean): number {
  if (state.running === running) return 0;
  state.running = running;
  return 1;
}

/** How far a 32-bit counter has come, also across its end. NaN counts as nowhere. */
function since(count: number, before: number): number {
  return (count - before) | 0;
}
