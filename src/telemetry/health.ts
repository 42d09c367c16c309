/** What makes flapd ready, degraded or neither; pure. */
export interface Condition {
  readonly name: string;
  readonly ok: boolean;
  /** Where it is not: whether that only lessens what flapd does (degraded), or stops it (not ready). */
  readonly degradesOnly?: boolean;
  readonly reason?: string;
}

export interface Health {
  readonly ready: boolean;
  readonly degraded: boolean;
  readonly reasons: readonly string[];
}

export function judge(conditions: readonly Condition[]): Health {
  const failing = conditions.filter(({ ok }) => !ok);
  return {
    ready: failing.every(({ degradesOnly }) => degradesOnly === true),
    degraded: failing.some(({ degradesOnly }) => degradesOnly === true),
    reasons: failing.map(({ name, reason }) => (reason === undefined ? name : `${name}: ${reason}`)),
  };
}
