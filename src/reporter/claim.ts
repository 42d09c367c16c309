/**
 * The claim: the key in etcd that names the one instance that may write for a host (docs/design.md, section 8.1).
 * Every transaction compares it by value, so the value must be the same bytes each time: fixed order, no spaces.
 */
export interface Claim {
  /** Higher with every take-over; a transaction of a lower epoch can never succeed. */
  readonly epoch: number;
  /** This process, unique among all there ever were. */
  readonly instance: string;
  /** The machine it runs on: a take-over on the same machine is a restart, on another it is two hosts with one name. */
  readonly machine: string;
  readonly lanes: number;
  /** RFC 3339. */
  readonly startedAt: string;
}

export function encodeClaim(claim: Claim): Uint8Array {
  const { epoch, instance, machine, lanes, startedAt } = claim;
  return new TextEncoder().encode(JSON.stringify({ epoch, instance, machine, lanes, startedAt }));
}

/** The claim in a key's value; null where it is none (somebody else's bytes). */
export function parseClaim(value: Uint8Array): Claim | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(value));
  } catch {
    return null;
  }
  if (typeof parsed !== 'object' || parsed === null) return null;
  const { epoch, instance, machine, lanes, startedAt } = parsed as Record<string, unknown>;
  const whole = Number.isSafeInteger(epoch) && Number.isSafeInteger(lanes) && (lanes as number) > 0;
  if (!whole || typeof instance !== 'string' || typeof machine !== 'string' || typeof startedAt !== 'string')
    return null;
  return { epoch: epoch as number, instance, machine, lanes: lanes as number, startedAt };
}
