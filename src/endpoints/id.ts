/** An endpoint's Calico id: what its status key in etcd is made of (docs/design.md, section 4). */
export type EndpointId =
  | {
      readonly kind: 'workload';
      readonly orchestrator: string;
      /** `<namespace>/<name>` for OpenStack and Kubernetes: it may hold a `/`, which the key escapes. */
      readonly workload: string;
      readonly endpoint: string;
    }
  | { readonly kind: 'host'; readonly endpoint: string };

export type EndpointKind = EndpointId['kind'];

/** What tells ids apart where they are no keys in etcd: two ids have the same one exactly if they are the same. */
export function idKey(id: EndpointId): string {
  return id.kind === 'host' ? `h\0${id.endpoint}` : `w\0${id.orchestrator}\0${id.workload}\0${id.endpoint}`;
}

/** The full etcd key of an endpoint's status. */
export type StatusKey = string & { readonly brand: 'StatusKey' };

/**
 * An endpoint's number in this process, dense from 0: it indexes the typed arrays of the hot path.
 * The journal records which key a number stands for.
 */
export type EndpointIndex = number & { readonly brand: 'EndpointIndex' };
