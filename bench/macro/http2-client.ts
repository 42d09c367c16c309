/** Unary gRPC calls over node:http2 with nothing around them: the baselines' client, which owes nothing to flapd's. */
import { type ClientHttp2Session, connect } from 'node:http2';
import { revisionOf } from '../../src/etcd/answer.js';
import { bytesField, Reader, varintField } from '../../src/wire/protobuf.js';

export class PlainClient {
  readonly #session: ClientHttp2Session;

  /** `endpoint`: http://host:port. */
  constructor(endpoint: string) {
    this.#session = connect(endpoint);
  }

  /** Resolves with the answer's message; rejects with whatever goes wrong. */
  call(path: string, request: Uint8Array): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const framed = Buffer.allocUnsafe(5 + request.length);
      framed[0] = 0;
      framed.writeUInt32BE(request.length, 1);
      framed.set(request, 5);
      const stream = this.#session.request({
        ':method': 'POST',
        ':path': path,
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      const chunks: Buffer[] = [];
      let status: unknown;
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('trailers', (trailers) => {
        status = trailers['grpc-status'];
      });
      stream.on('error', reject);
      stream.on('close', () => {
        if (status === '0') resolve(Buffer.concat(chunks).subarray(5));
        else reject(new Error(`${path}: gRPC status ${status}`));
      });
      stream.end(framed);
    });
  }

  /** etcd's newest, as the member knows it. */
  async revision(): Promise<number> {
    const request = Buffer.concat([bytesField(1, 'x'), varintField(7, 1)]); // RangeRequest: key 1, serializable 7
    const reader = new Reader(await this.call('/etcdserverpb.KV/Range', request));
    reader.tag(); // RangeResponse: header 1
    return revisionOf(reader.bytes());
  }

  close(): void {
    this.#session.close();
  }
}
