/**
 * Calico's resources in etcd, as far as an endpoint's status follows from them (Calico's
 * libcalico-go/lib/apis/v3/workloadendpoint.go, lib/names/workloadendpoint.go and
 * lib/backend/syncersv1/updateprocessors/; networking_calico/datamodel_v3.py):
 *
 *     …/workloadendpoints/<namespace>/<node>-<orchestrator>-<workload>-<endpoint>   each part's own "-" doubled
 *     …/hostendpoints/<name>
 *
 * The id of a workload endpoint is read from the resource's name, as Felix does, never from its value: what both write
 * is then the same key, two resources never have one id, and a resource that cannot be read still has one.
 */
import { z } from 'zod';
import type { Definition } from '../../endpoints/derive.js';
import type { EndpointId } from '../../endpoints/id.js';
import { InvalidIdError, statusKey, type Where } from '../../endpoints/key.js';

export type Reading =
  | { readonly kind: 'reported'; readonly definition: Definition }
  /** Another host's, or a workload's without networks, which Felix leaves out as well. */
  | { readonly kind: 'unreported' }
  /** `id` null: its name is no endpoint's. */
  | { readonly kind: 'damaged'; readonly why: string; readonly id: EndpointId | null };

/** Below it is every resource of Calico's. */
export const resources = '/calico/resources/v3/projectcalico.org/';

/** A resource takes a kilobyte or two. More is not worth holding the main thread up for. */
const valueBytesMax = 2 ** 20;

/**
 * Below it are the workload endpoints of this host, and those of hosts whose names go on with a dash: `a-` is also how
 * the names of `a-b` begin (`a--b-…`). readResource() tells them apart.
 *
 * One namespace only: with a region, the region's. What is in `openstack` then is either another cloud's, without a
 * region, that shares this etcd and may have a host of the same name; or from before the region was set, and Neutron's
 * driver deletes it when it next starts (WorkloadEndpointSyncer.delete_legacy_etcd_data). Either way its status below
 * this region's prefix would be of a VM that no Neutron there knows.
 */
export function workloadResources(where: Where): string {
  return `${resources}workloadendpoints/${namespaceOf(where)}/${escapeDashes(where.host)}-`;
}

/** Those of all hosts: which one is whose stands only in their values. */
export const hostResources = `${resources}hostendpoints/`;

/** What a resource below one of the prefixes above says of this host's endpoints. Throws nothing. */
export function readResource(key: string, value: Uint8Array, where: Where): Reading {
  const id = idOf(key, where);
  if (id === null) return damaged('its name is not <node>-<orchestrator>-<workload>-<endpoint>', null);
  if (id === 'another host') return { kind: 'unreported' };
  try {
    statusKey(id, where);
  } catch (error) {
    if (!(error instanceof InvalidIdError)) throw error;
    return damaged(error.message, null);
  }
  if (value.length > valueBytesMax) return damaged(`it is longer than ${valueBytesMax} bytes`, id);
  let json: unknown;
  try {
    // Bytes that are no UTF-8 become replacement characters, as in Go: a label may have them, and does not matter here.
    json = JSON.parse(Buffer.from(value.buffer, value.byteOffset, value.length).toString());
  } catch (error) {
    return damaged(`it is no JSON: ${(error as Error).message}`, id);
  }
  return id.kind === 'workload' ? readWorkload(id, json, where) : readHost(id, json, where);
}

// Go's decoder takes null for what is not there, and so does calicoctl.
const text = z
  .string()
  .nullish()
  .transform((given) => given ?? '');
const texts = z
  .array(z.string())
  .nullish()
  .transform((given) => given ?? []);
const workloadResource = z.object({
  spec: z.object({ node: z.string(), interfaceName: text, ipNetworks: texts }),
});
const hostResource = z.object({ spec: z.object({ node: text, interfaceName: text, expectedIPs: texts }) });

/** Host names are compared as they are, as in Felix: Neutron's `host` and FelixHostname have to agree in every letter. */
function readWorkload(id: EndpointId & { kind: 'workload' }, json: unknown, where: Where): Reading {
  const parsed = workloadResource.safeParse(json);
  if (!parsed.success) return damaged(problemOf(parsed.error), id);
  const { node, interfaceName, ipNetworks } = parsed.data.spec;
  if (node !== where.host || ipNetworks.length === 0) return { kind: 'unreported' };
  if (interfaceName === '') return damaged('it names no interface', id);
  // The resource has no state of its own: Felix's syncer makes every one of them "active".
  return { kind: 'reported', definition: { kind: 'workload', id, interfaceName, active: true } };
}

function readHost(id: EndpointId & { kind: 'host' }, json: unknown, where: Where): Reading {
  const parsed = hostResource.safeParse(json);
  if (!parsed.success) return damaged(problemOf(parsed.error), id);
  const { node, interfaceName, expectedIPs } = parsed.data.spec;
  if (node !== where.host) return { kind: 'unreported' };
  return { kind: 'reported', definition: { kind: 'host', id, interfaceName, expectedIps: expectedIPs } };
}

function idOf(key: string, where: Where): EndpointId | 'another host' | null {
  const name = key.slice(key.lastIndexOf('/') + 1);
  // Such a key was not UTF-8, and another one may look the same.
  if (key.includes('\ufffd')) return null;
  if (key === hostResources + name) return { kind: 'host', endpoint: name };
  const prefix = workloadResources(where);
  if (!key.startsWith(prefix)) return null;
  if (key[prefix.length] === '-') return 'another host';
  if (key !== prefix.slice(0, prefix.lastIndexOf('/') + 1) + name) return null;
  const parts = name.match(/(?:[^-]|--)+/g) ?? [];
  if (parts.length !== 4 || parts.join('-') !== name) return null;
  const [, orchestrator, workload, endpoint] = parts.map((part) => part.replaceAll('--', '-'));
  return {
    kind: 'workload',
    orchestrator: orchestrator!,
    workload: `${namespaceOf(where)}/${workload}`,
    endpoint: endpoint!,
  };
}

function namespaceOf({ region }: Where): string {
  return region === null ? 'openstack' : `openstack-region-${region}`;
}

function escapeDashes(part: string): string {
  return part.replaceAll('-', '--');
}

function damaged(why: string, id: EndpointId | null): Reading {
  return { kind: 'damaged', why, id };
}

function problemOf(error: z.ZodError): string {
  const issue = error.issues[0]!;
  return `${issue.path.join('.') || 'the whole'}: ${issue.message}`;
}
