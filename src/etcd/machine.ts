/** Which machine this is: a claim held by the same one is a restart's, one held by another is a name used twice. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';

export interface Machine {
  /** A hash: a machine id is meant to stay private (man 5 machine-id). */
  readonly name: string;
  /** What it was made of. Only a host name cannot tell two machines with the same one apart. */
  readonly from: 'machine-id' | 'product-uuid' | 'hostname';
}

/** Stays the same across restarts and reboots. Containers may have no machine id, and the product's takes root to read. */
export function thisMachine(
  machineIdFile = '/etc/machine-id',
  productUuidFile = '/sys/class/dmi/id/product_uuid',
): Machine {
  const machineId = readId(machineIdFile);
  if (machineId !== null) return { name: hash('machine-id', machineId), from: 'machine-id' };
  const uuid = readId(productUuidFile);
  if (uuid !== null) return { name: hash('product-uuid', `${uuid} ${hostname()}`), from: 'product-uuid' };
  return { name: hash('hostname', hostname()), from: 'hostname' };
}

function hash(from: Machine['from'], id: string): string {
  return createHash('sha256').update(`flapd ${from} ${id}`).digest('hex').slice(0, 16);
}

/** Null: there is none, or it is not set yet (an image before its first boot says `uninitialized`). */
function readId(file: string): string | null {
  try {
    const id = readFileSync(file, 'utf8').trim();
    return id === '' || id === 'uninitialized' ? null : id;
  } catch {
    return null;
  }
}
