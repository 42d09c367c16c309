/** What etcd must get for what is told to flapd: the rules of docs/design.md, sections 1 and 9, written a second time. */
import { Status } from '../../endpoints/status.js';

/** Null: nothing is known of the endpoint, neither to flapd nor to etcd. */
export type Known = Status | null;

/**
 * The statuses that etcd must get, in order, when an endpoint that has `before` is told to be `told`:
 * nothing for the status that it has already, and `down` first for one that comes back after a removal.
 */
export function expectedOf(before: Known, told: Status): readonly Status[] {
  if (told === before) return [];
  if (before === null && told === Status.removed) return [];
  if (before === Status.removed && told !== Status.down) return [Status.down, told];
  return [told];
}
