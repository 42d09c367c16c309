/** What a storm is made of; the command line is turned into this once (src/cli/storm.ts). */
import type { SettingName } from '../config/settings.js';
import type { EtcdTarget } from './subject/etcd.js';

export interface StormOptions {
  readonly via: 'feed' | 'netlink';
  readonly endpoints: number;
  readonly transitions: number;
  readonly seed: number;
  /** Transitions told a second; 0: as fast as it goes. */
  readonly flapRate: number;
  /** The share of all transitions that endpoint 0 takes; null: it is one among equals. */
  readonly hot: number | null;
  /** How often an endpoint is removed instead of going to its other status, 0 to 1. */
  readonly removals: number;
  /** All of flapd's standard settings, and two checks more. */
  readonly production: boolean;
  readonly chaos: boolean;
  /** With chaos: how often flapd is killed at least. */
  readonly flapdKills: number;
  readonly etcd: EtcdTarget;
  /** Leave the storm's keys in etcd. */
  readonly keep: boolean;
  /** Settings of the flapd under test. */
  readonly settings: ReadonlyMap<SettingName, string>;
  /** The storm is given up when nothing has moved for so long. */
  readonly patienceMs: number;
  /** Shares of the storm, in (0, 1); null: never. */
  readonly etcdKillAt: number | null;
  readonly etcdStopAt: number | null;
  readonly etcdStopForMs: number;
}

/** What goes on, as it happens: for a progress bar, and for tests that send signals of their own. */
export type StormEvent =
  | { readonly event: 'etcd'; readonly pid: number }
  | { readonly event: 'flapd'; readonly pid: number }
  | { readonly event: 'begins'; readonly host: string; readonly revision: number }
  | { readonly event: 'progress'; readonly committed: number; readonly transitions: number }
  | { readonly event: 'fault'; readonly fault: string; readonly phase: 'begins' | 'over' }
  | { readonly event: 'verifying' };

export type StormListener = (event: StormEvent) => void;
