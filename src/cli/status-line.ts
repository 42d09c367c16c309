/** What `flapd watch` prints for a status key. Pure. */
import { parseStatusValue } from '../endpoints/key.js';
import { statusName } from '../endpoints/status.js';
import { escapeControls } from '../telemetry/escape.js';

/** Where Calico keeps statuses, of all hosts and regions. */
export const statusPrefixes = ['/calico/felix/v2/', '/calico/felix/v1/host/'] as const;

const workloadKey =
  /^\/calico\/felix\/v2\/(?:no-region|region-([^/]+))\/host\/([^/]+)\/workload\/([^/]+)\/([^/]+)\/endpoint\/([^/]+)$/;
const hostKey = /^\/calico\/felix\/v1\/host\/([^/]+)\/endpoint\/([^/]+)$/;

/** One line; with `--json` it is printed as it is here. */
export interface StatusLine {
  /** When flapd saw it: etcd keeps no times. */
  readonly time: string;
  readonly revision: number;
  /** What was there when the watch began, rather than what happened since. */
  readonly initial: boolean;
  readonly region: string | null;
  readonly host: string;
  /** As in the key: `<orchestrator>/<workload>/<endpoint>`, or a host endpoint's name. */
  readonly endpoint: string;
  /** `up`, `down`, `error`, `removed`, or `unreadable` for a value that no reader could use. */
  readonly status: string;
  /** The unreadable value. */
  readonly value?: string;
}

/** Null for a key that is no endpoint's status. A value of null is a deletion. */
export function statusLine(
  key: string,
  value: Uint8Array | null,
  at: { readonly time: string; readonly revision: number; readonly initial: boolean },
): StatusLine | null {
  const workload = workloadKey.exec(key);
  const host = workload === null ? hostKey.exec(key) : null;
  if (workload !== null)
    return {
      ...at,
      region: workload[1] ?? null,
      host: workload[2]!,
      endpoint: workload.slice(3).join('/'),
      ...statusOf(value),
    };
  return host === null
    ? null
    : { ...at, region: null, host: host[1]!, endpoint: host[2]!, ...statusOf(value) };
}

function statusOf(value: Uint8Array | null): { status: string; value?: string } {
  if (value === null) return { status: 'removed' };
  const status = parseStatusValue(value);
  return status === null
    ? { status: 'unreadable', value: new TextDecoder().decode(value) }
    : { status: statusName(status) };
}

/** For people. Keys and values are other people's: what could disturb a terminal is escaped. */
export function formatLine(line: StatusLine): string {
  const time = (line.initial ? 'now' : line.time).padEnd(24);
  const value = line.value === undefined ? '' : ` ${JSON.stringify(line.value)}`;
  return escapeControls(
    `${time}  ${String(line.revision).padStart(8)}  ${line.host}  ${line.endpoint}  ${line.status}${value}`,
  );
}
