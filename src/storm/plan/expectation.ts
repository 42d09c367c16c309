/** What etcd must get for what is told to flapd: the rules of docs/design.md, sections 1, 6 and 9, written a second time. */
import { Status } from '../../endpoints/status.js';

/** Null: nothing is known of the endpoint, neither to flapd nor to etcd. */
export type Known = Status | null;

/** What etcd must get, in order, when an endpoint that has `before` is told to be `told`. */
export type Expectation = (before: Known, told: Status) => readonly Status[];

/**
 * Through the feed: nothing for the status that it has already, and `down` first for an endpoint that comes back after
 * a removal.
 */
export const expectedOfFeed: Expectation = (before, told) => {
  if (told === before) return [];
  if (before === null && told === Status.removed) return [];
  if (before === Status.removed && told !== Status.down) return [Status.down, told];
  return [told];
};

/** On interfaces: the same, and one that is removed while it is up goes down first, as the kernel reports it. */
export const expectedOfInterface: Expectation = (before, told) => {
  if (before === Status.up && told === Status.removed) return [Status.down, Status.removed];
  return expectedOfFeed(before, told);
};
