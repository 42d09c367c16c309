/**
 * What Felix tells a dataplane (ToDataplane of Calico's felix/proto/felixbackend.proto) about which endpoints there are:
 *
 *     ToDataplane    in_sync 1, host_endpoint_update 9, host_endpoint_remove 10, workload_endpoint_update 11,
 *                    workload_endpoint_remove 12, sequence_number 15
 *     WorkloadEndpointUpdate  id 1, endpoint 5 {state 1, name (the interface) 2, ipv4_nets 5, ipv6_nets 6}
 *     HostEndpointUpdate      id 1, endpoint 3 {name 1, expected_ipv4_addrs 4, expected_ipv6_addrs 5}
 *     removes                 id 1
 *
 * A workload endpoint without networks is not reported (section 4): it is read as one that is removed.
 * Not hot: Felix sends these when endpoints come and go, not when they flap.
 */
import type { Definition } from '../../endpoints/derive.js';
import type { EndpointId, EndpointKind } from '../../endpoints/id.js';
import { bytesField, DecodeError, Reader } from '../../wire/protobuf.js';
import { decodeId, encodeId } from './ids.js';

export type ToDataplane =
  /** Everything that there is has been told. */
  | { readonly kind: 'inSync' }
  /** `networks`: of a workload, at least one; empty for a host endpoint. */
  | { readonly kind: 'defined'; readonly definition: Definition; readonly networks: readonly string[] }
  | { readonly kind: 'removed'; readonly id: EndpointId }
  | { readonly kind: 'other' };

/** Of several things in one message the last one counts (they are a oneof). Throws a DecodeError. */
export function decodeToDataplane(bytes: Uint8Array): ToDataplane {
  const reader = new Reader(bytes);
  let told: ToDataplane = { kind: 'other' };
  while (!reader.done) {
    const field = reader.tag();
    if ((field & 7) !== 2) {
      reader.skip(field);
      continue;
    }
    const content = reader.bytes();
    switch (field >>> 3) {
      case 1:
        told = { kind: 'inSync' };
        break;
      case 9:
        told = { kind: 'defined', definition: hostDefinition(content), networks: [] };
        break;
      case 10:
        told = { kind: 'removed', id: idOf('host', content) };
        break;
      case 11:
        told = workloadDefinition(content);
        break;
      case 12:
        told = { kind: 'removed', id: idOf('workload', content) };
        break;
      default: // an IP set, a policy, a route: for the dataplane alone
    }
  }
  return told;
}

function hostDefinition(update: Uint8Array): Definition {
  const endpoint = fieldsOf(lastField(update, 3), [1, 4, 5]);
  return {
    kind: 'host',
    id: idOf('host', update),
    interfaceName: endpoint[1]?.at(-1) ?? '',
    expectedIps: [...(endpoint[4] ?? []), ...(endpoint[5] ?? [])],
  };
}

function workloadDefinition(update: Uint8Array): ToDataplane {
  const endpoint = fieldsOf(lastField(update, 5), [1, 2, 5, 6]);
  const definition: Definition = {
    kind: 'workload',
    id: idOf('workload', update),
    interfaceName: endpoint[2]?.at(-1) ?? '',
    active: endpoint[1]?.at(-1) === 'active',
  };
  const networks = [...(endpoint[5] ?? []), ...(endpoint[6] ?? [])];
  return networks.length > 0
    ? { kind: 'defined', definition, networks }
    : { kind: 'removed', id: definition.id };
}

/** As a message of Felix's, of the parts that are read alone. Null: there is nothing in it that is read. */
export function encodeToDataplane(told: ToDataplane): Uint8Array | null {
  switch (told.kind) {
    case 'inSync':
      return bytesField(1);
    case 'removed':
      return bytesField(told.id.kind === 'host' ? 10 : 12, encodeId(told.id));
    case 'defined':
      return encodeDefinition(told.definition, told.networks);
    case 'other':
      return null;
  }
}

function encodeDefinition(definition: Definition, networks: readonly string[]): Uint8Array {
  const id = encodeId(definition.id);
  const name = definition.interfaceName;
  if (definition.kind === 'host') {
    const addresses = definition.expectedIps.map((ip) => bytesField(4, ip));
    return bytesField(9, id, bytesField(3, bytesField(1, name), ...addresses));
  }
  const state = definition.active ? 'active' : 'inactive';
  const nets = networks.map((network) => bytesField(5, network));
  return bytesField(11, id, bytesField(5, bytesField(1, state), bytesField(2, name), ...nets));
}

function idOf(kind: EndpointKind, message: Uint8Array): EndpointId {
  const id = lastField(message, 1);
  if (id === null) throw new DecodeError(`a ${kind} endpoint without an id`);
  return decodeId(kind, id);
}

/** The content of a length-delimited field; null: there is none. */
function lastField(message: Uint8Array, number: number): Uint8Array | null {
  const reader = new Reader(message);
  let content: Uint8Array | null = null;
  while (!reader.done) {
    const field = reader.tag();
    if (field === ((number << 3) | 2)) content = reader.bytes();
    else reader.skip(field);
  }
  return content;
}

/** The strings of those fields, by number. A message that is missing has none. */
function fieldsOf(message: Uint8Array | null, numbers: readonly number[]): string[][] {
  const strings: string[][] = [];
  const reader = new Reader(message ?? new Uint8Array());
  while (!reader.done) {
    const field = reader.tag();
    const number = field >>> 3;
    if ((field & 7) !== 2 || !numbers.includes(number)) {
      reader.skip(field);
      continue;
    }
    strings[number] ??= [];
    strings[number].push(reader.string());
  }
  return strings;
}
