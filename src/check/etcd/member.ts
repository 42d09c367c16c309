/**
 * One endpoint of etcd, asked a few questions that change nothing (etcd, api/etcdserverpb/rpc.proto):
 *
 *     StatusResponse   header 1, version 2, leader 4
 *     AlarmResponse    header 1, alarms 2; AlarmMember: alarm 2 (NOSPACE 1, CORRUPT 2)
 *     RangeResponse    header 1, kvs 2; ResponseHeader: cluster_id 1, revision 3
 *     KeyValue         (api/mvccpb/kv.proto) key 1, mod_revision 3, value 5
 *     TxnRequest       compare 1, success 2, failure 3; RequestOp: request_put 2
 */
import { type CallOutcome, EtcdChannel } from '../../etcd/channel.js';
import type { Failure } from '../../etcd/classify.js';
import type { EtcdConnection } from '../../etcd/connection.js';
import { prefixEnd } from '../../etcd/prefix.js';
import { bytesField, Reader, varintField, WireType } from '../../wire/protobuf.js';

export type Answer<T> =
  | { readonly kind: 'answer'; readonly value: T }
  | { readonly kind: 'failed'; readonly failure: Failure };

export interface MemberStatus {
  readonly version: string;
  readonly knowsLeader: boolean;
  /** To be compared with others'; too large a number to be printed exactly. */
  readonly clusterId: number;
}

export interface Alarms {
  readonly noSpace: boolean;
  readonly corrupt: boolean;
}

export interface ReadKey {
  readonly key: string;
  readonly value: Uint8Array;
  readonly modRevision: number;
}

export interface ReadRange {
  readonly revision: number;
  readonly keys: readonly ReadKey[];
}

export class Member {
  readonly endpoint: string;
  readonly #channel: EtcdChannel;

  /** Throws an EtcdConnectionError. */
  constructor(connection: EtcdConnection, endpoint: string) {
    this.endpoint = endpoint;
    this.#channel = new EtcdChannel({ ...connection, endpoints: [endpoint] });
  }

  async status(): Promise<Answer<MemberStatus>> {
    return decoded(
      await this.#channel.call('/etcdserverpb.Maintenance/Status', new Uint8Array()),
      (response) => ({
        version: text(response.get(2)?.[0]),
        knowsLeader: number(response.get(4)?.[0]) !== 0,
        clusterId: number(fieldsOf(response.get(1)?.[0]).get(1)?.[0]),
      }),
    );
  }

  async alarms(): Promise<Answer<Alarms>> {
    return decoded(
      await this.#channel.call('/etcdserverpb.Maintenance/Alarm', new Uint8Array()),
      (response) => {
        const kinds = (response.get(2) ?? []).map((alarm) => number(fieldsOf(alarm).get(2)?.[0]));
        return { noSpace: kinds.includes(1), corrupt: kinds.includes(2) };
      },
    );
  }

  /** One key, or all that begin with it; at most `limit` of them (0: no limit). */
  async read(key: string, { prefix = false, limit = 0 } = {}): Promise<Answer<ReadRange>> {
    const start = Buffer.from(key);
    const request = Buffer.concat([
      bytesField(1, start),
      ...(prefix ? [bytesField(2, prefixEnd(start))] : []),
      ...(limit > 0 ? [varintField(3, limit)] : []),
    ]);
    return decoded(await this.#channel.call('/etcdserverpb.KV/Range', request), (response) => ({
      revision: number(fieldsOf(response.get(1)?.[0]).get(3)?.[0]),
      keys: (response.get(2) ?? []).map((keyValue) => {
        const fields = fieldsOf(keyValue);
        return {
          key: text(fields.get(1)?.[0]),
          value: bytes(fields.get(5)?.[0]),
          modRevision: number(fields.get(3)?.[0]),
        };
      }),
    }));
  }

  /**
   * Whether these keys might be put. Nothing is: the puts stand in the branch for the case that a comparison fails, and
   * there is no comparison, so the other branch, which is empty, is the one that is carried out. etcd checks the
   * permissions of both (server/etcdserver, checkTxnAuth; shown with real ones in test/e2e/check.test.ts).
   */
  async mayPut(keys: readonly (string | Uint8Array)[]): Promise<Answer<null>> {
    const request = Buffer.concat(keys.map((key) => bytesField(3, bytesField(2, bytesField(1, key)))));
    return decoded(await this.#channel.call('/etcdserverpb.KV/Txn', request), () => null);
  }

  close(): void {
    this.#channel.close();
  }
}

type FieldValue = number | Uint8Array;
type Fields = ReadonlyMap<number, readonly FieldValue[]>;

function decoded<T>(outcome: CallOutcome, decode: (fields: Fields) => T): Answer<T> {
  return outcome.kind === 'failed' ? outcome : { kind: 'answer', value: decode(fieldsOf(outcome.bytes)) };
}

/** The message's fields by number; what is neither a number nor bytes is passed over. */
function fieldsOf(message: FieldValue | undefined): Fields {
  const fields = new Map<number, FieldValue[]>();
  const reader = new Reader(bytes(message));
  while (!reader.done) {
    const tag = reader.tag();
    const type = tag % 8;
    if (type !== WireType.varint && type !== WireType.bytes) {
      reader.skip(tag);
      continue;
    }
    const value = type === WireType.varint ? reader.varint() : reader.bytes();
    const at = Math.floor(tag / 8);
    const list = fields.get(at);
    if (list === undefined) fields.set(at, [value]);
    else list.push(value);
  }
  return fields;
}

function number(value: FieldValue | undefined): number {
  return typeof value === 'number' ? value : 0;
}

function bytes(value: FieldValue | undefined): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array();
}

function text(value: FieldValue | undefined): string {
  return Buffer.from(bytes(value)).toString('utf8');
}
