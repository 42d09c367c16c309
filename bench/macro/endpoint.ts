import type { EndpointId } from '../../src/endpoints/id.js';

/** Ids as long as OpenStack's. */
export function benchEndpoint(n: number): EndpointId {
  const tail = String(n).padStart(12, '0');
  return {
    kind: 'workload',
    orchestrator: 'openstack',
    workload: `openstack/5f0b1c2d-3e4f-4a5b-8c6d-${tail}`,
    endpoint: `9a8b7c6d-5e4f-4a3b-8c1d-${tail}`,
  };
}
