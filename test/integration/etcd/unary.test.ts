import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import {
  createSecureServer,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { afterEach, describe, it } from 'node:test';
import { UnaryClient, UnaryError } from '../../../src/etcd/unary.js';
import { Certificates } from '../../support/certificates.js';
import { until } from '../../support/waiting.js';

type Answer = (stream: ServerHttp2Stream, request: Buffer, headers: IncomingHttpHeaders) => void;

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

/** A server whose every call is answered so. */
async function serve(
  answer: Answer,
  server: Http2Server = createServer(),
): Promise<{ target: string; sessions: Set<ServerHttp2Session> }> {
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
    session.on('error', () => undefined);
  });
  server.on('stream', (stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on('error', () => undefined);
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => answer(stream, Buffer.concat(chunks), headers));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { target: `127.0.0.1:${(server.address() as AddressInfo).port}`, sessions };
}

function client(target: string, tls: ConstructorParameters<typeof UnaryClient>[1] = null): UnaryClient {
  const made = new UnaryClient(target, tls);
  open.push(() => made.close());
  return made;
}

const framed = (message: Buffer): Buffer => {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};

/** gRPC's way to answer. */
function respond(stream: ServerHttp2Stream, message: Buffer | null, trailers: Record<string, string>): void {
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  stream.end(message === null ? undefined : framed(message));
}

const echo: Answer = (stream, request) => respond(stream, request.subarray(5), { 'grpc-status': '0' });
const hello = Buffer.from('hello');

async function failure(call: Promise<Buffer>): Promise<UnaryError> {
  try {
    const answer = await call;
    assert.fail(`answered: ${answer}`);
  } catch (error) {
    assert.ok(error instanceof UnaryError, String(error));
    return error;
  }
}

describe('a unary call', () => {
  it('sends one whole message with its token, and brings one back', async () => {
    let seen: IncomingHttpHeaders = {};
    let sent: Buffer = Buffer.alloc(0);
    const { target } = await serve((stream, request, headers) => {
      seen = headers;
      sent = request;
      echo(stream, request, headers);
    });
    const big = Buffer.alloc(300_000, 7); // beyond a window of HTTP/2 and a frame of it
    assert.deepEqual(await client(target).call('/etcdserverpb.KV/Txn', big, 'abc', 5000), big);
    assert.deepEqual(sent, framed(big));
    assert.equal(seen[':path'], '/etcdserverpb.KV/Txn');
    assert.equal(seen['content-type'], 'application/grpc');
    assert.equal(seen.te, 'trailers');
    assert.equal(seen.token, 'abc');
  });

  it('takes an empty message for one', async () => {
    const { target } = await serve(echo);
    assert.deepEqual(await client(target).call('/x', Buffer.alloc(0), null, 5000), Buffer.alloc(0));
  });

  for (const [how, answer] of [
    [
      'in trailers',
      (stream: ServerHttp2Stream) =>
        respond(stream, null, { 'grpc-status': '8', 'grpc-message': 'etcdserver: too%20many requests' }),
    ],
    [
      'without a body at all',
      (stream: ServerHttp2Stream) =>
        stream.respond(
          { ':status': 200, 'grpc-status': '8', 'grpc-message': 'etcdserver: too many requests' },
          { endStream: true },
        ),
    ],
  ] as const) {
    it(`gives the status and the words of an error ${how}, as grpc-js would`, async () => {
      const { target } = await serve(answer);
      const error = await failure(client(target).call('/x', hello, null, 5000));
      assert.equal(error.code, 8);
      assert.equal(error.message, '8 RESOURCE_EXHAUSTED: etcdserver: too many requests');
    });
  }

  it('ends by its deadline where no answer comes, and the next one goes on', async () => {
    let answers = 0;
    const cancelled: number[] = [];
    const { target } = await serve((stream, request, headers) => {
      stream.on('close', () => cancelled.push(stream.rstCode));
      if (answers++ > 0) echo(stream, request, headers);
    });
    const one = client(target);
    const error = await failure(one.call('/x', hello, null, 50));
    assert.equal(error.code, 4);
    assert.match(error.message, /^4 DEADLINE_EXCEEDED: no answer within 50 ms$/);
    assert.deepEqual(await one.call('/x', hello, null, 5000), hello);
    assert.equal(cancelled[0], 8); // the peer hears that nobody waits any more
  });

  it('is unavailable where nobody listens, and where the deadline is over before a connection is there', async () => {
    const nobody = await failure(client('127.0.0.1:1').call('/x', hello, null, 5000));
    assert.equal(nobody.code, 14);
    assert.match(nobody.message, /ECONNREFUSED/);
    // It takes connections and says nothing, not even HTTP/2's first words.
    const silent = createTcpServer(() => undefined);
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    open.push(() => silent.close());
    const late = await failure(
      client(`127.0.0.1:${(silent.address() as AddressInfo).port}`).call('/x', hello, null, 50),
    );
    assert.equal(late.code, 4);
  });

  for (const [what, answer] of [
    [
      'another status of HTTP',
      (stream: ServerHttp2Stream) => stream.respond({ ':status': 503 }, { endStream: true }),
    ],
    ['a stream that breaks', (stream: ServerHttp2Stream) => stream.close(2)],
    ['a connection that breaks', (stream: ServerHttp2Stream) => stream.session?.destroy()],
    [
      'an end without a status',
      (stream: ServerHttp2Stream) => {
        stream.respond({ ':status': 200 });
        stream.end(framed(hello));
      },
    ],
  ] as const) {
    it(`takes ${what} for unavailable`, async () => {
      const { target } = await serve(answer);
      const error = await failure(client(target).call('/x', hello, null, 5000));
      assert.equal(error.code, 14, error.message);
    });
  }

  for (const [what, bytes] of [
    ['cut short', framed(hello).subarray(0, 7)],
    ['more than one message', Buffer.concat([framed(hello), framed(hello)])],
    ['compressed, which nobody asked for', Buffer.concat([Buffer.from([1]), framed(hello).subarray(1)])],
    ['empty, though all is said to be well', Buffer.alloc(0)],
  ] as const) {
    it(`refuses an answer that is ${what}`, async () => {
      const { target } = await serve((stream) => {
        stream.respond({ ':status': 200 }, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
        stream.end(bytes);
      });
      const error = await failure(client(target).call('/x', hello, null, 5000));
      assert.equal(error.code, 13);
    });
  }

  it('connects anew after the peer has said that it goes, without losing the calls under way', async () => {
    const held: (() => void)[] = [];
    const { target, sessions } = await serve((stream, request, headers) => {
      if (request.includes('wait')) held.push(() => echo(stream, request, headers));
      else echo(stream, request, headers);
    });
    const one = client(target);
    const waiting = one.call('/x', Buffer.from('wait'), null, 5000);
    await until('the first call to arrive', () => held.length === 1);
    const [first] = sessions;
    first!.close();
    // One that crosses the peer's words on its way is refused: unavailable, to be sent again.
    await until('a call on another connection', async () => {
      const answer = await one.call('/x', hello, null, 5000).catch(() => null);
      return answer !== null && [...sessions].some((session) => session !== first);
    });
    held[0]!();
    assert.deepEqual(await waiting, Buffer.from('wait'));
  });

  it('ends what is under way when it is closed, and takes no more', async () => {
    const { target } = await serve(() => undefined);
    const one = client(target);
    const waiting = failure(one.call('/x', hello, null, 5000));
    await new Promise((resolve) => setImmediate(resolve));
    one.close();
    assert.equal((await waiting).code, 14);
    assert.equal((await failure(one.call('/x', hello, null, 5000))).code, 14);
  });

  it('opens one connection for the calls that come while it connects', async () => {
    const { target, sessions } = await serve(echo);
    const one = client(target);
    const calls = Array.from({ length: 50 }, () => one.call('/x', hello, null, 5000));
    assert.equal((await Promise.all(calls)).length, 50);
    assert.equal(sessions.size, 1);
  });

  it('believes nobody but whom its authority vouches for', async () => {
    const certificates = new Certificates();
    open.push(() => certificates.remove());
    certificates.authority('ca');
    certificates.authority('other');
    certificates.certificate('server', 'ca');
    const [ca, other, cert, key] = ['ca.pem', 'other.pem', 'server.pem', 'server.key'].map((file) =>
      readFileSync(certificates.path(file)),
    );
    const { target } = await serve(echo, createSecureServer({ cert: cert!, key: key! }));
    assert.deepEqual(
      await client(target, { ca: ca!, cert: null, key: null }).call('/x', hello, null, 5000),
      hello,
    );
    const error = await failure(
      client(target, { ca: other!, cert: null, key: null }).call('/x', hello, null, 5000),
    );
    assert.equal(error.code, 14);
    assert.match(error.message, /certificate/);
  });
});
