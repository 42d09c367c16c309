/**
 * Takes a host's claim (docs/design.md, section 8.1), which makes this instance the one that may write, and voids
 * whatever the last one still has on its way.
 */
import type { Etcd3, IRequestOp, ITxnResponse } from 'etcd3';
import type { ClaimAnswer } from '../reporter/answers.js';
import { type Claim, encodeClaim, parseClaim } from '../reporter/claim.js';
import { classify, type Failure } from './classify.js';
import { type Reachable, watchKey } from './watch.js';

export interface ClaimRequest {
  readonly claimKey: string;
  readonly cursorKey: (lane: number) => string;
  readonly instance: string;
  /** See machine.ts. */
  readonly machine: string;
  /** Wanted; an older claim's number stays (see ClaimOutcome). */
  readonly lanes: number;
  /** RFC 3339. */
  readonly startedAt: string;
  /** The epoch held so far, 0 at first; see the claim effect. */
  readonly epoch: number;
  /** Take it from another machine too. */
  readonly take: boolean;
}

type Claimed = Extract<ClaimAnswer, { kind: 'claimed' }>;

/**
 * A ClaimAnswer that also says how many lanes the claim, and so the cursors, stand for: as many as the claim before
 * it, since cursors say nothing to another number. changeLanes() goes over to the wanted one.
 */
export type ClaimOutcome = (Claimed & { readonly lanes: number }) | Exclude<ClaimAnswer, Claimed>;

/** The claim as it was read, from which the transaction starts out. */
interface Held {
  readonly modRevision: string;
  readonly value: Buffer;
}

/** Between the read and the transaction the claim may change: so often is it tried. */
const racesMax = 5;

/** Never rejects. What the read says only proposes, since a plain read may be stale: the transaction's compare decides. */
export async function takeClaim(client: Etcd3, request: ClaimRequest): Promise<ClaimOutcome> {
  try {
    const read = await client.kv.range({ key: Buffer.from(request.claimKey) });
    let held = heldOf(read.kvs);
    for (let race = 0; race < racesMax; race++) {
      const claim = held === null ? null : parseClaim(held.value);
      const refused = held === null ? null : refusal(claim, request);
      if (refused !== null) return refused;
      const tried = await tryClaim(client, request, held, claim);
      if ('kind' in tried) return tried;
      held = tried.instead;
    }
    const message = `the claim has changed ${racesMax} times while it was being taken`;
    return { kind: 'unclear', reason: 'other', message };
  } catch (error) {
    return unclear(error, request);
  }
}

/**
 * Goes over to another number of lanes. Only when nothing is pending: the new lanes start with the cursors given,
 * which must cover all that any lane has committed. `claimed` is what takeClaim() said last. Never rejects; after
 * `unclear`, takeClaim() tells which number holds.
 */
export async function changeLanes(
  client: Etcd3,
  request: ClaimRequest,
  claimed: Claimed & { readonly lanes: number },
  cursors: readonly Uint8Array[],
): Promise<ClaimOutcome> {
  const lanes = cursors.length;
  const epoch = claimed.epoch + 1;
  const claim = claimOf(request, epoch, lanes);
  const key = Buffer.from(request.claimKey);
  const gone = Array.from({ length: Math.max(0, claimed.lanes - lanes) }, (_, i) => lanes + i);
  try {
    const response = await client.kv.txn({
      compare: [{ result: 'Equal', target: 'Value', key, value: Buffer.from(claimed.claim) }],
      success: [
        { request_put: { key, value: claim } },
        ...cursors.map((cursor, lane) => ({
          request_put: { key: Buffer.from(request.cursorKey(lane)), value: Buffer.from(cursor) },
        })),
        ...gone.map((lane) => ({ request_delete_range: { key: Buffer.from(request.cursorKey(lane)) } })),
      ],
    });
    if (!response.succeeded) {
      const message = 'the claim is not ours any more';
      return { kind: 'unclear', reason: 'other', message };
    }
    return { kind: 'claimed', claim, epoch, revision: revisionOf(response), cursors: [...cursors], lanes };
  } catch (error) {
    return unclear(error, request);
  }
}

/**
 * Calls back whenever the claim has changed, and when it may have: a hint for a daemon that has nothing to write and
 * would not notice a take-over. Ends with the signal.
 */
export async function watchClaim(
  connection: Reachable,
  claimKey: string,
  options: {
    /** The first revision that counts: the one after the claim's own. */
    readonly fromRevision: number;
    /** Null: it is gone, or unreadable, or nobody knows what happened to it. */
    readonly onChange: (claim: Claim | null) => void;
    /** Watching, from now on. */
    readonly onConnected?: () => void;
    /** Not watching at present; it goes on trying. */
    readonly onFailure?: (failure: Failure) => void;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { onChange, signal, onConnected, onFailure } = options;
  let { fromRevision } = options;
  while (!signal.aborted) {
    await watchKey(connection, claimKey, {
      fromRevision,
      onEvents: (events) => {
        const value = events.at(-1)?.value ?? null;
        onChange(value === null ? null : parseClaim(value));
      },
      onCompacted: () => onChange(null),
      ...(onConnected !== undefined && { onConnected }),
      ...(onFailure !== undefined && { onFailure }),
      signal,
    });
    fromRevision = 0;
  }
}

function refusal(claim: Claim | null, request: ClaimRequest): ClaimOutcome | null {
  if (claim === null) {
    if (request.take) return null;
    const message =
      `${request.claimKey} holds something that is no claim this flapd can read: a newer flapd's, or somebody else's. ` +
      'Look at it with etcdctl; to take the host over all the same: flapd claim --take';
    return { kind: 'refused', holder: 'unknown', message };
  }
  if (claim.instance === request.instance) return null;
  if (request.epoch > 0 && claim.epoch >= request.epoch) {
    const message = `instance ${claim.instance} on machine ${claim.machine} has taken this host over with epoch ${claim.epoch}`;
    return { kind: 'refused', holder: claim.machine, message };
  }
  if (claim.machine !== request.machine && !request.take) {
    const message =
      `machine ${claim.machine} holds this host's claim (instance ${claim.instance}, since ${claim.startedAt}), and this is ` +
      `machine ${request.machine}: two machines with one host name would overwrite each other's statuses. Give one of ` +
      'them another name, or, if the other one is gone for good: flapd claim --take';
    return { kind: 'refused', holder: claim.machine, message };
  }
  return null;
}

/** `instead`: the claim was not what was read any more, but this. */
async function tryClaim(
  client: Etcd3,
  request: ClaimRequest,
  held: Held | null,
  before: Claim | null,
): Promise<ClaimOutcome | { readonly instead: Held | null }> {
  const lanes = before?.lanes ?? request.lanes;
  const epoch = Math.max(before?.epoch ?? 0, request.epoch) + 1;
  const claim = claimOf(request, epoch, lanes);
  const key = Buffer.from(request.claimKey);
  const getCursors: IRequestOp[] = Array.from({ length: lanes }, (_, lane) => ({
    request_range: { key: Buffer.from(request.cursorKey(lane)) },
  }));
  const response = await client.kv.txn({
    // Of a key that does not exist, the mod revision is 0.
    compare: [{ result: 'Equal', target: 'Mod', key, mod_revision: held?.modRevision ?? '0' }],
    success: [{ request_put: { key, value: claim } }, ...getCursors],
    failure: [{ request_range: { key } }],
  });
  if (!response.succeeded) return { instead: heldOf(response.responses[0]?.response_range?.kvs) };
  const cursors = response.responses.slice(1).map((op) => op.response_range?.kvs[0]?.value ?? null);
  return { kind: 'claimed', claim, epoch, revision: revisionOf(response), cursors, lanes };
}

function claimOf({ instance, machine, startedAt }: ClaimRequest, epoch: number, lanes: number): Buffer {
  return Buffer.from(encodeClaim({ epoch, instance, machine, lanes, startedAt }));
}

function heldOf(kvs: readonly { mod_revision: string; value: Buffer }[] | undefined): Held | null {
  const kv = kvs?.[0];
  return kv === undefined ? null : { modRevision: kv.mod_revision, value: kv.value };
}

function revisionOf(response: ITxnResponse): number {
  return Number(response.header.revision);
}

function unclear(error: unknown, request: ClaimRequest): ClaimOutcome {
  const answer = classify(error);
  switch (answer.kind) {
    case 'unclear':
      return answer;
    case 'denied': {
      const message = `${answer.message}: the claim and the cursors take a role with readwrite on the keys beside ${request.claimKey}`;
      return { kind: 'unclear', reason: 'denied', message };
    }
    case 'unauthenticated':
    case 'overloaded':
      return { kind: 'unclear', reason: answer.kind, message: answer.message };
    case 'tooLarge':
    case 'invalid':
      return { kind: 'unclear', reason: 'other', message: answer.message };
  }
}
