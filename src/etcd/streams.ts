/** Streams to etcd, by @grpc/grpc-js. A module of its own, since worker threads need none: see channel.ts. */
import {
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
} from '@grpc/grpc-js';
import { channelOptions, type OpenedConnection } from './connection.js';

export type EtcdStream = ClientDuplexStream<Uint8Array, Buffer>;

/** One client for each of etcd's endpoints to which a stream was opened. */
export class Streams {
  readonly #targets: readonly string[];
  readonly #credentials: ChannelCredentials;
  readonly #clients: (Client | undefined)[] = [];

  constructor({ targets, tls }: OpenedConnection) {
    this.#targets = targets;
    this.#credentials =
      tls === null ? credentials.createInsecure() : credentials.createSsl(tls.ca, tls.key, tls.cert);
  }

  open(index: number, path: string, token: string | null): EtcdStream {
    const metadata = new Metadata();
    if (token !== null) metadata.set('token', token);
    // A member cut off from the others ends the stream instead of being silent for as long as that lasts.
    metadata.set('hasleader', 'true');
    this.#clients[index] ??= new Client(this.#targets[index]!, this.#credentials, channelOptions);
    return this.#clients[index].makeBidiStreamRequest(path, asBuffer, asIs, metadata, {});
  }

  close(index: number): void {
    this.#clients[index]?.close();
    this.#clients[index] = undefined;
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function asIs(bytes: Buffer): Buffer {
  return bytes;
}
