/** Who may write for this host at present. */
import { claimKey, type Where } from '../../endpoints/key.js';
import { parseClaim } from '../../reporter/claim.js';
import { type Finding, fine, found } from '../finding.js';

/** `value`: the claim's key; null: there is no such key. Pure. */
export function judgeClaim(value: Uint8Array | null, where: Where, machine: string): Finding {
  if (value === null) return fine('claim', `no flapd has claimed ${where.host} yet`);
  const claim = parseClaim(value);
  if (claim === null)
    return found(
      'claim-unreadable',
      `${claimKey(where)} holds something that is no claim this flapd can read`,
      `look at it: etcdctl get ${claimKey(where)}; to take the host over all the same: flapd claim --take`,
    );
  if (claim.machine === machine)
    return fine('claim', `${where.host} is this machine's, epoch ${claim.epoch}, since ${claim.startedAt}`);
  return found(
    'claim-other-machine',
    `machine ${claim.machine} holds the claim of ${where.host} since ${claim.startedAt}, and this is machine ${machine}`,
    'two machines must not have one host name: give one of them another (setting host, as Nova and Felix have it). ' +
      'Where the other one is gone for good: flapd claim --take',
  );
}
