/** A stream to etcd, by @grpc/grpc-js. A module of its own, which worker threads do not load: see channel.ts. */
import { Client, type ClientDuplexStream, credentials, Metadata } from '@grpc/grpc-js';
import type { Way } from './channel.js';
import { channelOptions } from './connection.js';

export type EtcdStream = ClientDuplexStream<Uint8Array, Buffer>;

/** Opens a stream without a deadline, on a connection of its own, which ends with close(). Its errors are the caller's. */
export function openStream(
  { target, tls, token }: Way,
  path: string,
): { readonly stream: EtcdStream; readonly close: () => void } {
  const client = new Client(
    target,
    tls === null ? credentials.createInsecure() : credentials.createSsl(tls.ca, tls.key, tls.cert),
    channelOptions,
  );
  const metadata = new Metadata();
  if (token !== null) metadata.set('token', token);
  // A member cut off from the others ends the stream instead of being silent for as long as that lasts.
  metadata.set('hasleader', 'true');
  const stream = client.makeBidiStreamRequest(path, asBuffer, asIs, metadata, {});
  return { stream, close: () => client.close() };
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}
