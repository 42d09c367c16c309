/**
 * Where Calico keeps an endpoint's status in etcd, and in which form (docs/design.md, section 4; Calico's
 * libcalico-go/lib/backend/model/workloadendpointstatus.go and hostendpointstatus.go).
 */
import type { EndpointId, StatusKey } from './id.js';
import { Status, statusFromValue, statusName } from './status.js';

/** Whose keys: a host, and the OpenStack region it belongs to (null: no region). */
export interface Where {
  readonly host: string;
  readonly region: string | null;
}

export class InvalidIdError extends Error {
  readonly code = 'INVALID_ENDPOINT_ID';
}

/** A part of an id may be a namespace and a name, each up to 253 characters in Kubernetes. */
const partBytesMax = 512;

export function workloadPrefix(where: Where): string {
  return `/calico/felix/v2/${regionPart(where)}/host/${where.host}/workload/`;
}

export function hostPrefix(where: Where): string {
  return `/calico/felix/v1/host/${where.host}/endpoint/`;
}

/** Below it is what is flapd's own. It is outside of every prefix that Neutron or Felix watches. */
export function flapdPrefix(where: Where): string {
  return `/calico/flapd/v1/${regionPart(where)}/host/${where.host}/`;
}

export function claimKey(where: Where): string {
  return `${flapdPrefix(where)}claim`;
}

export function cursorKey(where: Where, lane: number): string {
  return `${flapdPrefix(where)}lane/${lane}`;
}

/** Both keys by which Neutron sees that the agent of a host lives: the one with a lease, and the one that stays. */
export function processStatusKeys(where: Where): { readonly expiring: string; readonly last: string } {
  const prefix = `/calico/felix/v2/${regionPart(where)}/host/${where.host}/`;
  return { expiring: `${prefix}status`, last: `${prefix}last_reported_status` };
}

function regionPart({ region }: Where): string {
  return region === null ? 'no-region' : `region-${region}`;
}

/** The key of an endpoint's status. Throws an InvalidIdError for an id that no key can hold. */
export function statusKey(id: EndpointId, where: Where): StatusKey {
  const parts =
    id.kind === 'host'
      ? `${hostPrefix(where)}${escapePart('endpoint', id.endpoint)}`
      : `${workloadPrefix(where)}${escapePart('orchestrator', id.orchestrator)}/${escapePart('workload', id.workload)}` +
        `/endpoint/${escapePart('endpoint', id.endpoint)}`;
  return parts as StatusKey;
}

/** The endpoint that a key of this host belongs to; null for any other key, and for one of a foreign shape. */
export function parseStatusKey(key: string, where: Where): EndpointId | null {
  const host = hostPrefix(where);
  if (key.startsWith(host)) {
    const endpoint = unescapePart(key.slice(host.length));
    return endpoint === null ? null : { kind: 'host', endpoint };
  }
  const workload = workloadPrefix(where);
  if (!key.startsWith(workload)) return null;
  const parts = key.slice(workload.length).split('/');
  if (parts.length !== 4 || parts[2] !== 'endpoint') return null;
  const [orchestrator, name, , endpoint] = parts.map((part) => unescapePart(part));
  if (orchestrator == null || name == null || endpoint == null) return null;
  return { kind: 'workload', orchestrator, workload: name, endpoint };
}

/** What is wrong with a host name as part of a key; null: nothing. */
export function hostProblem(host: string): string | null {
  if (host === '') return 'is empty';
  if (host.includes('/')) return 'holds a "/", which would leave its prefix in etcd';
  if (!isPlain(host)) return 'holds a control character, or is no valid Unicode';
  return Buffer.byteLength(host) > 253 ? 'is longer than 253 bytes' : null;
}

/** What is wrong with a region: Neutron's driver takes lower-case DNS labels only. Null: nothing. */
export function regionProblem(region: string): string | null {
  if (/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(region)) return null;
  return 'is no lower-case DNS label (a to z, 0 to 9 and "-" within, 63 characters at most), and Neutron would never see its keys';
}

function escapePart(what: string, part: string): string {
  const problem = partProblem(part);
  if (problem !== null) {
    const shown = part.length > 40 ? `${part.slice(0, 40)}…` : part;
    throw new InvalidIdError(`the ${what} of an endpoint id ${problem}: ${JSON.stringify(shown)}`);
  }
  return part.replaceAll('%', '%25').replaceAll('/', '%2f');
}

function partProblem(part: string): string | null {
  if (part === '') return 'is empty';
  if (Buffer.byteLength(part) > partBytesMax) return `is longer than ${partBytesMax} bytes`;
  return isPlain(part) ? null : 'holds a control character, or is no valid Unicode';
}

/** Null for a part that escapePart() would not have written, but for the case of its escapes. */
function unescapePart(part: string): string | null {
  if (part.includes('/') || /%(?!25|2f)/i.test(part)) return null;
  const text = part.includes('%') ? part.replace(/%2f/gi, '/').replaceAll('%25', '%') : part;
  return partProblem(text) === null ? text : null;
}

function isPlain(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return !/[\u0000-\u001f\u007f]/.test(text) && text.isWellFormed();
}

const encoder = new TextEncoder();
const values: Record<Exclude<Status, typeof Status.removed>, Uint8Array> = {
  [Status.up]: encoder.encode(`{"status":"${statusName(Status.up)}"}`),
  [Status.down]: encoder.encode(`{"status":"${statusName(Status.down)}"}`),
  [Status.error]: encoder.encode(`{"status":"${statusName(Status.error)}"}`),
};

/** The value of a status key: exactly this, since Neutron's watcher dies of anything it does not expect. */
export function statusValue(status: Exclude<Status, typeof Status.removed>): Uint8Array {
  return values[status];
}

/** The status that a key's value says; null for one that a reader could not use. */
export function parseStatusValue(value: Uint8Array): Status | null {
  try {
    // A byte order mark is kept, and so refused: Python's json refuses it too.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value);
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed !== 'object' || parsed === null || !Object.hasOwn(parsed, 'status')) return null;
    const { status } = parsed as { status: unknown };
    return typeof status === 'string' ? (statusFromValue(status) ?? null) : null;
  } catch {
    return null;
  }
}

/**
 * The lane of a key: FNV-1a over its UTF-16 units with a final mix (murmur3's), since neighbouring names must not
 * share one. It must never change while a cursor in etcd speaks of it.
 */
export function laneOf(key: string, lanes: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % lanes;
}
