/**
 * Calico's resources as they are in etcd: workload endpoints as networking-calico writes them for a Neutron port
 * (networking_calico/datamodel_v3.py, plugins/ml2/drivers/calico/endpoints.py), host endpoints as calicoctl does.
 * Made from nothing of src/, so that it can say whether that is right.
 */
import type { EndpointId } from '../../src/endpoints/id.js';

export interface Resource {
  readonly key: string;
  readonly value: string;
}

/** A port of a VM, as Neutron binds it. */
export interface Port {
  /** The host it is bound to (`binding:host_id`). */
  readonly node: string;
  /** None unless said otherwise. */
  readonly region?: string | null;
  /** The VM's id (`device_id`). */
  readonly vm: string;
  /** The port's id. */
  readonly port: string;
  /** The tap that Nova makes, `tap` and eleven characters of the port's id, unless said otherwise. */
  readonly interfaceName?: string;
  /** One of each family unless said otherwise. */
  readonly ips?: readonly string[];
  /** Neutron writes the resource anew where these change; no status follows from them. */
  readonly labels?: Readonly<Record<string, string>>;
}

export interface HostEndpoint {
  readonly name: string;
  readonly node: string;
  readonly interfaceName?: string;
  readonly expectedIPs?: readonly string[];
}

const resources = '/calico/resources/v3/projectcalico.org';

export function namespaceOf(region: string | null = null): string {
  return region === null ? 'openstack' : `openstack-region-${region}`;
}

/** `tap` and eleven characters of the port's id: what Nova names it. */
export function tapOf(port: string): string {
  return `tap${port.slice(0, 11)}`;
}

export function workloadEndpointName({ node, vm, port }: Port): string {
  return [node, 'openstack', vm, port].map((part) => part.replaceAll('-', '--')).join('-');
}

export function workloadEndpointKey(port: Port): string {
  return `${resources}/workloadendpoints/${namespaceOf(port.region)}/${workloadEndpointName(port)}`;
}

/** The id that its status has, in the keys that flapd writes. */
export function workloadEndpointId({ region, vm, port }: Port): EndpointId {
  return {
    kind: 'workload',
    orchestrator: 'openstack',
    workload: `${namespaceOf(region)}/${vm}`,
    endpoint: port,
  };
}

/** Python's json.dumps writes a space after `:` and `,`, and nothing but ASCII; that makes no difference to a reader. */
export function workloadEndpoint(port: Port): Resource {
  const namespace = namespaceOf(port.region);
  const ips = port.ips ?? ['10.28.0.7', 'fd5f:5d21:845:1c2e:2::7'];
  const spec = {
    orchestrator: 'openstack',
    workload: port.vm,
    node: port.node,
    endpoint: port.port,
    interfaceName: port.interfaceName ?? tapOf(port.port),
    mac: 'fa:16:3e:5a:1b:2c',
    ipv4Gateway: '10.28.0.1',
    ipv6Gateway: 'fd5f:5d21:845:1c2e:2::1',
    ipNetworks: ips.map((ip) => `${ip}/${ip.includes(':') ? 128 : 32}`),
    allowedIps: [],
  };
  const labels = {
    'sg.projectcalico.org/openstack-6a2b4f0e': 'default',
    'projectcalico.org/namespace': namespace,
    'projectcalico.org/orchestrator': 'openstack',
    'projectcalico.org/openstack-project-id': '5a1c8d9b0e2f4e7fb7f6f2a1',
    ...port.labels,
  };
  const annotations = { 'openstack.projectcalico.org/network-id': '0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0' };
  return {
    key: workloadEndpointKey(port),
    value: JSON.stringify({
      kind: 'WorkloadEndpoint',
      apiVersion: 'projectcalico.org/v3',
      metadata: {
        name: workloadEndpointName(port),
        namespace,
        creationTimestamp: '2026-01-01T00:00:00Z',
        uid: 'b1c2d3e4-0000-4000-8000-000000000001',
        labels,
        annotations,
      },
      spec,
    }),
  };
}

export function hostEndpointKey(name: string): string {
  return `${resources}/hostendpoints/${name}`;
}

/** The id that its status has. */
export function hostEndpointId(name: string): EndpointId {
  return { kind: 'host', endpoint: name };
}

export function hostEndpoint({ name, node, interfaceName, expectedIPs }: HostEndpoint): Resource {
  return {
    key: hostEndpointKey(name),
    value: JSON.stringify({
      kind: 'HostEndpoint',
      apiVersion: 'projectcalico.org/v3',
      metadata: {
        name,
        creationTimestamp: '2026-01-01T00:00:00Z',
        uid: 'b1c2d3e4-0000-4000-8000-000000000002',
      },
      spec: {
        node,
        ...(interfaceName !== undefined && { interfaceName }),
        ...(expectedIPs !== undefined && { expectedIPs }),
      },
    }),
  };
}
