/**
 * A lane's transaction as the bytes of etcdserverpb.TxnRequest (etcd, api/etcdserverpb/rpc.proto), put together from
 * pieces that are encoded once: building it through a client's builder costs 14 us for each put, copying a piece a
 * fraction of that (docs/design.md, section 8.3).
 *
 *     TxnRequest  compare 1, success 2, failure 3
 *     Compare     result 1 (EQUAL 0), target 2 (VERSION 0, VALUE 3), key 3, version 4, value 7
 *     RequestOp   request_range 1, request_put 2, request_delete_range 3
 *     RangeRequest, PutRequest, DeleteRangeRequest   key 1; PutRequest: value 2
 */
import type { EndpointIndex } from '../endpoints/id.js';
import { statusValue } from '../endpoints/key.js';
import { Status } from '../endpoints/status.js';
import type { Txn } from '../reporter/effects.js';
import { bytesField, varintField, varintLength, WireType, writeVarint } from '../wire/protobuf.js';
import { Pieces } from './pieces.js';

export interface TxnKeys {
  readonly claimKey: string;
  readonly cursorKey: (lane: number) => string;
  readonly statusKeyOf: (endpoint: EndpointIndex) => string;
}

/** What of a lane's transactions never changes. */
interface LanePieces {
  /** Compare's target and key: the value follows. */
  readonly cursorHolds: Uint8Array;
  /** Whole: the cursor's key does not exist. */
  readonly cursorAbsent: Uint8Array;
  /** PutRequest's key: the value follows. */
  readonly cursorPut: Uint8Array;
  /** Whole: get(claim), get(cursor). */
  readonly otherwise: Uint8Array;
}

const field = (number: number) => number * 8 + WireType.bytes;
const compareTag = field(1);
const successTag = field(2);
const failure = 3;
const putTag = field(2);
const compareTargetValue = varintField(2, 3);
const compareValueTag = field(7);
const putValueTag = field(2);

export class TxnEncoder {
  readonly #keys: TxnKeys;
  readonly #lanes: LanePieces[] = [];
  /** Of an endpoint and a status, by operationNumber(): a field of TxnRequest. */
  readonly #operations = new Pieces();
  #claim: Uint8Array | null = null;
  #claimHolds: Uint8Array = new Uint8Array();

  constructor(keys: TxnKeys) {
    this.#keys = keys;
  }

  /** The request, in a buffer of its own and of just its size, so that it can be handed to another thread. The same each time. */
  encode(txn: Txn): Uint8Array<ArrayBuffer> {
    const { endpoints, statuses, cursorBefore, cursorAfter } = txn;
    this.#lanes[txn.lane] ??= this.#encodeLane(txn.lane);
    const lane = this.#lanes[txn.lane]!;
    const claimHolds = this.#claimCompare(txn.claim);
    const compareLength =
      cursorBefore === null ? 0 : lane.cursorHolds.length + fieldLength(cursorBefore.length);
    const putLength = lane.cursorPut.length + fieldLength(cursorAfter.length);

    let length = claimHolds.length + lane.otherwise.length + fieldLength(fieldLength(putLength));
    length += cursorBefore === null ? lane.cursorAbsent.length : fieldLength(compareLength);
    for (let i = 0; i < endpoints.length; i++) length += this.#operationLength(endpoints[i]!, statuses[i]!);

    const request = new Uint8Array(length);
    let at = append(request, 0, claimHolds);
    if (cursorBefore === null) {
      at = append(request, at, lane.cursorAbsent);
    } else {
      at = writeHead(request, at, compareTag, compareLength);
      at = append(request, at, lane.cursorHolds);
      at = writeHead(request, at, compareValueTag, cursorBefore.length);
      at = append(request, at, cursorBefore);
    }
    const view = new DataView(request.buffer);
    for (let i = 0; i < endpoints.length; i++)
      at = this.#operations.copy(operationNumber(endpoints[i]!, statuses[i]!), view, at);
    at = writeHead(request, at, successTag, fieldLength(putLength));
    at = writeHead(request, at, putTag, putLength);
    at = append(request, at, lane.cursorPut);
    at = writeHead(request, at, putValueTag, cursorAfter.length);
    at = append(request, at, cursorAfter);
    append(request, at, lane.otherwise);
    return request;
  }

  /** The endpoint is gone: its pieces need not be kept. It may come back. */
  forget(endpoint: EndpointIndex): void {
    for (const status of Object.values(Status)) this.#operations.delete(operationNumber(endpoint, status));
  }

  /** Of the operation, which is encoded where it is not yet. */
  #operationLength(endpoint: EndpointIndex, status: Status): number {
    const number = operationNumber(endpoint, status);
    if (this.#operations.lengthOf(number) === 0)
      this.#operations.add(number, this.#encodeOperation(endpoint, status));
    return this.#operations.lengthOf(number);
  }

  #encodeOperation(endpoint: EndpointIndex, status: Status): Uint8Array {
    const key = bytesField(1, this.#keys.statusKeyOf(endpoint));
    const operation =
      status === Status.removed ? bytesField(3, key) : bytesField(2, key, bytesField(2, statusValue(status)));
    return bytesField(2, operation);
  }

  /** It is the same for a whole epoch. */
  #claimCompare(claim: Uint8Array): Uint8Array {
    if (claim !== this.#claim) {
      this.#claim = claim;
      this.#claimHolds = bytesField(
        1,
        compareTargetValue,
        bytesField(3, this.#keys.claimKey),
        bytesField(7, claim),
      );
    }
    return this.#claimHolds;
  }

  #encodeLane(lane: number): LanePieces {
    const cursorKey = this.#keys.cursorKey(lane);
    const get = (key: string) => bytesField(failure, bytesField(1, bytesField(1, key)));
    return {
      cursorHolds: concat(compareTargetValue, bytesField(3, cursorKey)),
      cursorAbsent: bytesField(1, bytesField(3, cursorKey), varintField(4, 0)),
      cursorPut: bytesField(1, cursorKey),
      otherwise: concat(get(this.#keys.claimKey), get(cursorKey)),
    };
  }
}

function operationNumber(endpoint: EndpointIndex, status: Status): number {
  return endpoint * 4 + status;
}

function concat(first: Uint8Array, second: Uint8Array): Uint8Array {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}

/** Of a length-delimited field with a number below 16, whose tag is one byte. */
function fieldLength(length: number): number {
  return 1 + varintLength(length) + length;
}

function writeHead(target: Uint8Array, at: number, tag: number, length: number): number {
  target[at] = tag;
  return writeVarint(target, at + 1, length);
}

function append(target: Uint8Array, at: number, piece: Uint8Array): number {
  target.set(piece, at);
  return at + piece.length;
}
