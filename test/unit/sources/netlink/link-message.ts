import type { LinkMessage } from '../../../../src/sources/netlink/messages.js';

/** A message of the kernel about an interface: by default of number 4, tap1, switched on and running. */
export function linkMessage(what: Partial<LinkMessage> = {}): LinkMessage {
  const running = what.running ?? true;
  return {
    ifindex: 4,
    name: 'tap1',
    adminUp: true,
    running,
    carrier: running,
    heldBack: false,
    carrierUpCount: Number.NaN,
    carrierDownCount: Number.NaN,
    ...what,
  };
}
