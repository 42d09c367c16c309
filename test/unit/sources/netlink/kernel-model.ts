/**
 * What Linux does with an interface's carrier and tells of it (net/sched/sch_generic.c, net/core/link_watch.c,
 * net/core/rtnetlink.c), and what somebody who sees everything would tell.
 */
import type { LinkMessage } from '../../../../src/sources/netlink/messages.js';
import { linkMessage } from './link-message.js';

/** What a driver does while a message is being filled, after the carrier and after each counter was read. */
export interface Meanwhile {
  readonly afterCarrier: number;
  readonly afterUps: number;
}

export class KernelModel {
  #adminUp: boolean;
  #carrier: boolean;
  #operUp: boolean;
  #ups: number;
  #downs: number;
  /** Every change of "switched on, and has a carrier", as it was after it. */
  readonly changes: boolean[] = [];
  readonly messages: LinkMessage[] = [];

  constructor(start: { adminUp: boolean; carrier: boolean; ups: number; downs: number }) {
    this.#adminUp = start.adminUp;
    this.#carrier = start.carrier;
    this.#operUp = start.carrier;
    this.#ups = start.ups;
    this.#downs = start.downs;
  }

  get #works(): boolean {
    return this.#adminUp && this.#carrier;
  }

  /** netif_carrier_on() or netif_carrier_off(): takes no lock, sends nothing. */
  toggleCarrier(): void {
    const before = this.#works;
    this.#carrier = !this.#carrier;
    if (this.#carrier) this.#ups = (this.#ups + 1) >>> 0;
    else this.#downs = (this.#downs + 1) >>> 0;
    if (before !== this.#works) this.changes.push(this.#works);
  }

  /** The administrator: the message comes with it. */
  toggleAdmin(): void {
    const before = this.#works;
    this.#adminUp = !this.#adminUp;
    if (before !== this.#works) this.changes.push(this.#works);
    this.message();
  }

  /** linkwatch_do_dev(): the state catches up with the carrier, and is told where the interface is switched on. */
  linkwatch(meanwhile?: Meanwhile): void {
    this.#operUp = this.#carrier;
    if (this.#adminUp) this.message(meanwhile);
  }

  /** rtnl_fill_ifinfo(): the flags, then one counter, then the other. */
  message({ afterCarrier, afterUps }: Meanwhile = { afterCarrier: 0, afterUps: 0 }): void {
    const adminUp = this.#adminUp;
    const running = this.#adminUp && this.#operUp;
    const carrier = this.#carrier;
    for (let i = 0; i < afterCarrier; i++) this.toggleCarrier();
    const carrierUpCount = this.#ups;
    for (let i = 0; i < afterUps; i++) this.toggleCarrier();
    this.messages.push(
      linkMessage({ adminUp, running, carrier, carrierUpCount, carrierDownCount: this.#downs }),
    );
  }
}
