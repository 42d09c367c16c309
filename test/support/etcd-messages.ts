/** etcd's messages (api/etcdserverpb/rpc.proto, api/mvccpb/kv.proto), for a library that knows nothing of flapd's own encoding. */
import protobuf from 'protobufjs';

const { root } = protobuf.parse(
  `syntax = "proto3";
   package etcd;
   message KeyValue { bytes key = 1; int64 create_revision = 2; int64 mod_revision = 3; int64 version = 4; bytes value = 5; int64 lease = 6; }
   message Event { enum EventType { PUT = 0; DELETE = 1; } EventType type = 1; KeyValue kv = 2; KeyValue prev_kv = 3; }
   message ResponseHeader { uint64 cluster_id = 1; uint64 member_id = 2; int64 revision = 3; uint64 raft_term = 4; }
   message RangeRequest { bytes key = 1; bytes range_end = 2; int64 limit = 3; int64 revision = 4; }
   message RangeResponse { ResponseHeader header = 1; repeated KeyValue kvs = 2; bool more = 3; int64 count = 4; }
   message PutRequest { bytes key = 1; bytes value = 2; int64 lease = 3; bool prev_kv = 4; bool ignore_value = 5; bool ignore_lease = 6; }
   message PutResponse { ResponseHeader header = 1; KeyValue prev_kv = 2; }
   message DeleteRangeRequest { bytes key = 1; bytes range_end = 2; bool prev_kv = 3; }
   message DeleteRangeResponse { ResponseHeader header = 1; int64 deleted = 2; repeated KeyValue prev_kvs = 3; }
   message RequestOp { oneof request { RangeRequest request_range = 1; PutRequest request_put = 2; DeleteRangeRequest request_delete_range = 3; TxnRequest request_txn = 4; } }
   message ResponseOp { oneof response { RangeResponse response_range = 1; PutResponse response_put = 2; DeleteRangeResponse response_delete_range = 3; TxnResponse response_txn = 4; } }
   message Compare {
     enum CompareResult { EQUAL = 0; GREATER = 1; LESS = 2; NOT_EQUAL = 3; }
     enum CompareTarget { VERSION = 0; CREATE = 1; MOD = 2; VALUE = 3; LEASE = 4; }
     CompareResult result = 1; CompareTarget target = 2; bytes key = 3;
     oneof target_union { int64 version = 4; int64 create_revision = 5; int64 mod_revision = 6; bytes value = 7; int64 lease = 8; }
     bytes range_end = 64;
   }
   message TxnRequest { repeated Compare compare = 1; repeated RequestOp success = 2; repeated RequestOp failure = 3; }
   message TxnResponse { ResponseHeader header = 1; bool succeeded = 2; repeated ResponseOp responses = 3; }
   message WatchResponse { ResponseHeader header = 1; int64 watch_id = 2; bool created = 3; bool canceled = 4; int64 compact_revision = 5; string cancel_reason = 6; bool fragment = 7; repeated Event events = 11; }`,
  new protobuf.Root(),
  { keepCase: true },
);

export const TxnRequest = root.lookupType('etcd.TxnRequest');
export const TxnResponse = root.lookupType('etcd.TxnResponse');
export const WatchResponse = root.lookupType('etcd.WatchResponse');

/** As plain values: bytes as Buffers, numbers as numbers, enums by their names. (A Buffer in gives Buffers out.) */
export function decoded(type: protobuf.Type, bytes: Uint8Array): Record<string, unknown> {
  return type.toObject(type.decode(Buffer.from(bytes)), {
    longs: Number,
    enums: String,
    bytes: Buffer,
    oneofs: true,
  });
}

export function encoded(type: protobuf.Type, value: object): Buffer {
  return Buffer.from(type.encode(type.fromObject(value)).finish());
}
