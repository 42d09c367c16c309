/**
 * The end of the range that holds just the keys with a prefix (etcd, rpc.proto, RangeRequest.range_end): the prefix
 * with its last byte one higher. Of the empty prefix, which all keys have, it is a zero byte: "to the end".
 */
export function prefixEnd(prefix: Uint8Array): Buffer {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  if (length === 0) return Buffer.from([0]);
  const end = Buffer.from(prefix.subarray(0, length));
  end[length - 1]!++;
  return end;
}
