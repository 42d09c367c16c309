/**
 * The words for what is reported and where it was seen (docs/design.md, section 2), as small integers:
 * the hot path keeps them in typed arrays, so a transition costs no object and no string.
 */

/** `removed` means that the endpoint's key is deleted. */
export const Status = { removed: 0, up: 1, down: 2, error: 3 } as const;
export type Status = (typeof Status)[keyof typeof Status];
export type StatusName = keyof typeof Status;

const statusNames: readonly StatusName[] = ['removed', 'up', 'down', 'error'];

export function statusName(status: Status): StatusName {
  return statusNames[status]!;
}

/** The status of that name, or undefined for any other string. `removed` is no value a key can have. */
export function statusFromValue(name: string): Status | undefined {
  switch (name) {
    case 'up':
      return Status.up;
    case 'down':
      return Status.down;
    case 'error':
      return Status.error;
    default:
      return undefined;
  }
}

/** Where an observation comes from. */
export const Source = { netlink: 0, felix: 1, datastore: 2, resync: 3 } as const;
export type Source = (typeof Source)[keyof typeof Source];
export type SourceName = keyof typeof Source;

const sourceNames: readonly SourceName[] = ['netlink', 'felix', 'datastore', 'resync'];

export function sourceName(source: Source): SourceName {
  return sourceNames[source]!;
}
