/** Our HTTP/2 against peers that are in the right, as far as RFC 9113 lets them go, and against some that are not. */
import assert from 'node:assert/strict';
import { createServer as createHttp1 } from 'node:http';
import { createServer, type ServerHttp2Stream, type ServerOptions } from 'node:http2';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, it } from 'node:test';
import {
  ErrorCode,
  encodeFrame,
  encodeGoAway,
  encodeNumber,
  encodeSettings,
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  preface,
  Setting,
} from '../../../src/etcd/http2/frames.js';
import { UnaryClient, UnaryError } from '../../../src/etcd/unary.js';
import { until } from '../../support/waiting.js';

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function client(target: string): UnaryClient {
  const made = new UnaryClient(target, null);
  open.push(() => made.close());
  return made;
}

async function refused(call: Promise<Buffer>): Promise<string> {
  const error = await call.then(
    (answer) => assert.fail(`answered: ${answer}`),
    (error: unknown) => error,
  );
  assert.ok(error instanceof UnaryError);
  assert.equal(error.code, 14, error.message);
  return error.message;
}

// --- node's server --------------------------------------------------------------------------------------------------

/** Answers with the request, after so long, and with these words. */
async function echoing(
  options: ServerOptions,
  { delayMs = 0, words = '' }: { delayMs?: number; words?: string } = {},
): Promise<{ target: string; mostAtOnce: () => number }> {
  let [now, most] = [0, 0];
  const server = createServer(options);
  server.on('session', (session) => open.push(() => session.destroy()));
  server.on('stream', (stream: ServerHttp2Stream) => {
    most = Math.max(most, ++now);
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('close', () => now--);
    stream.on('end', () =>
      setTimeout(() => {
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
        stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0', 'grpc-message': words }));
        stream.end(Buffer.concat(chunks));
      }, delayMs),
    );
  });
  return { target: await listening(server), mostAtOnce: () => most };
}

const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, i) => (i * 31) % 251));

describe('HTTP/2 with a peer that', () => {
  it('takes a hundred bytes at a time gets all of a request, and in order', async () => {
    const { target } = await echoing({ settings: { initialWindowSize: 100 } });
    const one = client(target);
    const requests = [bytes(5000), bytes(3), bytes(70_000)];
    const answers = await Promise.all(requests.map((request) => one.call('/x', request, null, 10_000)));
    assert.deepEqual(answers, requests);
  });

  it('takes frames of 100,000 bytes gets them', async () => {
    const { target } = await echoing({ settings: { maxFrameSize: 100_000, initialWindowSize: 1_000_000 } });
    const request = bytes(250_000);
    assert.deepEqual(await client(target).call('/x', request, null, 10_000), request);
  });

  it('takes one request at a time gets one after another, and no answer is lost', async () => {
    const { target, mostAtOnce } = await echoing({ settings: { maxConcurrentStreams: 1 } }, { delayMs: 5 });
    const one = client(target);
    await one.call('/x', bytes(1), null, 10_000); // it knows the peer's settings from here on
    const requests = Array.from({ length: 20 }, (_, i) => bytes(i + 1));
    const answers = await Promise.all(requests.map((request) => one.call('/x', request, null, 10_000)));
    assert.deepEqual(answers, requests);
    assert.equal(mostAtOnce(), 1);
  });

  it('has taken all that it can lets those that wait end by their deadlines', async () => {
    const { target } = await echoing({ settings: { maxConcurrentStreams: 1 } }, { delayMs: 300 });
    const one = client(target);
    const first = one.call('/x', bytes(9), null, 10_000);
    await assert.rejects(one.call('/x', bytes(1), null, 50), /DEADLINE_EXCEEDED/);
    assert.deepEqual(await first, bytes(9));
    assert.deepEqual(await one.call('/x', bytes(2), null, 10_000), bytes(2));
  });

  it('has long header fields, and every character in them, is understood', async () => {
    const visible = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)).join('');
    const words = `${encodeURIComponent(visible)}${'y'.repeat(40_000)}`; // more than a frame
    const server = createServer({ settings: { maxHeaderListSize: 65_000 } });
    server.on('session', (session) => open.push(() => session.destroy()));
    server.on('stream', (stream: ServerHttp2Stream) => {
      stream.on('error', () => undefined);
      stream.respond(
        { ':status': 200, 'x-all': visible.trim(), 'grpc-status': '9', 'grpc-message': words },
        { endStream: true },
      );
    });
    const target = await listening(server);
    const error = await client(target)
      .call('/x', bytes(1), null, 10_000)
      .catch((error: unknown) => error);
    assert.ok(error instanceof UnaryError);
    assert.equal(error.code, 9);
    assert.equal(error.message, `9 FAILED_PRECONDITION: ${decodeURIComponent(words)}`);
  });

  it('answers ten thousand requests, a hundred at a time, gives each its own answer', async () => {
    const { target } = await echoing({});
    const one = client(target);
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < 10_000) {
        const request = Buffer.from(`request ${next++}`);
        assert.deepEqual(await one.call('/x', request, null, 10_000), request);
      }
    };
    await Promise.all(Array.from({ length: 100 }, worker));
  });
});

// --- a peer of frames ------------------------------------------------------------------------------------------------

interface Peer {
  readonly target: string;
  readonly frames: Frame[];
  send(...frames: Buffer[]): void;
}

/** Says its settings, and to each request that is whole what `answer` does. */
async function framesPeer(
  answer: (peer: Peer, stream: number) => void,
  settings = encodeSettings([]),
): Promise<Peer> {
  const sockets: Socket[] = [];
  const frames: Frame[] = [];
  const server = createTcpServer((socket) => {
    sockets.push(socket);
    open.push(() => socket.destroy());
    socket.on('error', () => undefined);
    socket.write(settings);
    const reader = new FrameReader();
    let greeted = 0;
    socket.on('data', (chunk) => {
      const greeting = Math.min(chunk.length, preface.length - greeted);
      greeted += greeting;
      reader.push(chunk.subarray(greeting), (frame) => {
        frames.push({ ...frame, payload: Buffer.from(frame.payload) });
        if (frame.type === FrameType.data && (frame.flags & Flag.endStream) !== 0) answer(peer, frame.stream);
      });
    });
  });
  const peer: Peer = {
    target: await listening(server),
    frames,
    send: (...sent) => {
      sockets.at(-1)!.write(Buffer.concat(sent));
    },
  };
  return peer;
}

const status200 = Buffer.of(0x88);
const grpcOk = Buffer.concat([Buffer.of(0, 11), Buffer.from('grpc-status'), Buffer.of(1), Buffer.from('0')]);
const helloMessage = Buffer.concat([Buffer.of(0, 0, 0, 0, 5), Buffer.from('hello')]);
const headers = (stream: number, flags: number, block: Uint8Array): Buffer =>
  encodeFrame(FrameType.headers, flags, stream, block);
const whole = (stream: number): Buffer[] => [
  headers(stream, Flag.endHeaders, status200),
  encodeFrame(FrameType.data, 0, stream, helloMessage),
  headers(stream, Flag.endHeaders | Flag.endStream, grpcOk),
];
const hello = Buffer.from('hello');

describe('HTTP/2 with frames', () => {
  for (const [what, frames] of [
    [
      'padded',
      (stream: number) => [
        headers(
          stream,
          Flag.endHeaders | Flag.padded,
          Buffer.concat([Buffer.of(3), status200, Buffer.alloc(3)]),
        ),
        encodeFrame(
          FrameType.data,
          Flag.padded,
          stream,
          Buffer.concat([Buffer.of(9), helloMessage, Buffer.alloc(9)]),
        ),
        headers(stream, Flag.endHeaders | Flag.endStream, grpcOk),
      ],
    ],
    [
      'with a priority',
      (stream: number) => [
        headers(stream, Flag.endHeaders | Flag.priority, Buffer.concat([Buffer.alloc(5), status200])),
        ...whole(stream).slice(1),
      ],
    ],
    [
      'of header fields in three pieces',
      (stream: number) => [
        ...whole(stream).slice(0, 2),
        headers(stream, Flag.endStream, grpcOk.subarray(0, 3)),
        encodeFrame(FrameType.continuation, 0, stream, grpcOk.subarray(3, 4)),
        encodeFrame(FrameType.continuation, Flag.endHeaders, stream, grpcOk.subarray(4)),
      ],
    ],
    [
      'of a byte of data each',
      (stream: number) => [
        headers(stream, Flag.endHeaders, status200),
        ...[...helloMessage].map((byte) => encodeFrame(FrameType.data, 0, stream, Buffer.of(byte))),
        encodeFrame(FrameType.data, 0, stream, Buffer.alloc(0)),
        headers(stream, Flag.endHeaders | Flag.endStream, grpcOk),
      ],
    ],
    [
      'that say first that an answer will come',
      (stream: number) => [
        headers(stream, Flag.endHeaders, Buffer.concat([Buffer.of(0x48, 3), Buffer.from('103')])),
        ...whole(stream),
      ],
    ],
    [
      'among others that mean nothing to us',
      (stream: number) => [
        encodeFrame(FrameType.priority, 0, stream, Buffer.alloc(5)),
        encodeFrame(200, 0, stream, Buffer.from('of another day')),
        encodeSettings([[0xf000 as typeof Setting.enablePush, 1]]),
        ...whole(stream),
      ],
    ],
  ] as const) {
    it(`${what} understands the answer`, async () => {
      const peer = await framesPeer((peer, stream) => peer.send(...frames(stream)));
      assert.deepEqual(await client(peer.target).call('/x', hello, null, 5000), hello);
    });
  }

  it('takes an answer that comes byte by byte', async () => {
    const peer = await framesPeer((peer, stream) => {
      const all = Buffer.concat(whole(stream));
      let at = 0;
      const timer = setInterval(() => {
        if (at < all.length) peer.send(all.subarray(at, ++at));
        else clearInterval(timer);
      }, 1);
    });
    assert.deepEqual(await client(peer.target).call('/x', hello, null, 10_000), hello);
  });

  it('answers a ping with what it said', async () => {
    const said = Buffer.from('12345678');
    const peer = await framesPeer((peer, stream) =>
      peer.send(encodeFrame(FrameType.ping, 0, 0, said), ...whole(stream)),
    );
    await client(peer.target).call('/x', hello, null, 5000);
    await until('an answer to the ping', () => peer.frames.some(({ type }) => type === FrameType.ping));
    const ping = peer.frames.find(({ type }) => type === FrameType.ping)!;
    assert.deepEqual([ping.flags, ping.payload], [Flag.ack, said]);
  });

  it('sends no more than the connection takes, and the rest when it takes more', async () => {
    const peer = await framesPeer((peer, stream) => peer.send(...whole(stream)));
    const call = client(peer.target).call('/x', bytes(100_000), null, 10_000);
    const received = (): number =>
      peer.frames
        .filter(({ type }) => type === FrameType.data)
        .reduce((sum, { payload }) => sum + payload.length, 0);
    await until('all that the window takes', () => received() === 65_535);
    peer.send(encodeNumber(FrameType.windowUpdate, 0, 1000));
    peer.send(encodeNumber(FrameType.windowUpdate, 1, 1_000_000));
    await until('a thousand bytes more', () => received() === 66_535);
    peer.send(encodeNumber(FrameType.windowUpdate, 0, 1_000_000));
    assert.deepEqual(await call, hello);
    assert.equal(received(), 100_005);
  });

  it('sends nothing more of a request whose window has become smaller than what was sent of it', async () => {
    const peer = await framesPeer((peer, stream) => peer.send(...whole(stream)));
    const call = client(peer.target).call('/x', bytes(100_000), null, 10_000);
    const received = (): number =>
      peer.frames
        .filter(({ type }) => type === FrameType.data)
        .reduce((sum, { payload }) => sum + payload.length, 0);
    await until('all that the window takes', () => received() === 65_535);
    // 100 less 65,535: the first of these makes up for that only.
    peer.send(
      encodeSettings([[Setting.initialWindowSize, 100]]),
      encodeNumber(FrameType.windowUpdate, 0, 1_000_000),
    );
    peer.send(
      encodeNumber(FrameType.windowUpdate, 1, 65_435),
      encodeFrame(FrameType.ping, 0, 0, Buffer.alloc(8)),
    );
    await until('an answer to the ping', () => peer.frames.some(({ type }) => type === FrameType.ping));
    assert.equal(received(), 65_535);
    peer.send(encodeNumber(FrameType.windowUpdate, 1, 1_000_000));
    assert.deepEqual(await call, hello);
    assert.equal(received(), 100_005);
  });

  it('gives each request another connection that comes after the peer said that it goes', async () => {
    let answers = 0;
    const peer = await framesPeer((peer, stream) => {
      peer.send(...whole(stream));
      if (answers++ === 0) peer.send(encodeGoAway(ErrorCode.noError));
    });
    const one = client(peer.target);
    for (let n = 0; n < 3; n++) {
      await until('an answer', () => one.call('/x', hello, null, 5000).catch(() => null));
    }
    const first = peer.frames.filter(({ type, stream }) => type === FrameType.headers && stream === 1);
    assert.equal(first.length, 2);
  });

  for (const [what, frames, code] of [
    ['a frame that is too long', () => [Buffer.of(0, 0x80, 0, 0, 0, 0, 0, 0, 1)], ErrorCode.frameSizeError],
    [
      'a push',
      (id: number) => [encodeFrame(FrameType.pushPromise, 0, id, Buffer.alloc(4))],
      ErrorCode.protocolError,
    ],
    ['an answer to a request that there is not', () => whole(77), ErrorCode.protocolError],
    ['an answer to a request of its own', () => whole(2), ErrorCode.protocolError],
    [
      'header fields from a table that it was told not to keep',
      (id: number) => [headers(id, Flag.endHeaders, Buffer.of(0xbe))],
      ErrorCode.compressionError,
    ],
    [
      'header fields that something else comes between',
      (id: number) => [headers(id, 0, status200), ...whole(id)],
      ErrorCode.protocolError,
    ],
    [
      'header fields without end',
      (id: number) => [
        headers(id, 0, status200),
        ...Array.from({ length: 10 }, () => encodeFrame(FrameType.continuation, 0, id, Buffer.alloc(16_000))),
      ],
      ErrorCode.enhanceYourCalm,
    ],
    [
      'a continuation of nothing',
      (id: number) => [encodeFrame(FrameType.continuation, Flag.endHeaders, id, status200)],
      ErrorCode.protocolError,
    ],
    [
      'more padding than there is',
      (id: number) => [encodeFrame(FrameType.data, Flag.padded, id, Buffer.of(200, 1, 2))],
      ErrorCode.protocolError,
    ],
    [
      'settings cut off',
      () => [encodeFrame(FrameType.settings, 0, 0, Buffer.alloc(5))],
      ErrorCode.frameSizeError,
    ],
    [
      'a window of more than there can be',
      () => [encodeSettings([[Setting.initialWindowSize, 2 ** 31]])],
      ErrorCode.flowControlError,
    ],
    [
      'a window that grows beyond that',
      () => [encodeNumber(FrameType.windowUpdate, 0, 2 ** 31 - 1)],
      ErrorCode.flowControlError,
    ],
    [
      'a window that grows by nothing',
      () => [encodeNumber(FrameType.windowUpdate, 0, 0)],
      ErrorCode.flowControlError,
    ],
    [
      'frames of a size that there is not',
      () => [encodeSettings([[Setting.maxFrameSize, 100]])],
      ErrorCode.protocolError,
    ],
    [
      'a reset cut off',
      (id: number) => [encodeFrame(FrameType.resetStream, 0, id, Buffer.alloc(3))],
      ErrorCode.frameSizeError,
    ],
    [
      'a good-bye cut off',
      () => [encodeFrame(FrameType.goAway, 0, 0, Buffer.alloc(7))],
      ErrorCode.frameSizeError,
    ],
  ] as const) {
    it(`tells the peer of ${what}, is unavailable, and connects anew`, async () => {
      let answers = 0;
      const peer = await framesPeer((peer, stream) =>
        peer.send(...(answers++ === 0 ? frames(stream) : whole(stream))),
      );
      const one = client(peer.target);
      await refused(one.call('/x', hello, null, 5000));
      await until('a good-bye', () => peer.frames.some(({ type }) => type === FrameType.goAway));
      const goAway = peer.frames.find(({ type }) => type === FrameType.goAway)!;
      assert.equal(goAway.payload.readUInt32BE(4), code);
      assert.deepEqual(await one.call('/x', hello, null, 5000), hello);
    });
  }

  it('gives up one request whose window grows beyond all bounds, and only that', async () => {
    let answers = 0;
    const peer = await framesPeer((peer, stream) =>
      peer.send(
        ...(answers++ === 0 ? [encodeNumber(FrameType.windowUpdate, stream, 2 ** 31 - 1)] : whole(stream)),
      ),
    );
    const one = client(peer.target);
    await refused(one.call('/x', hello, null, 5000));
    assert.deepEqual(await one.call('/x', hello, null, 5000), hello);
    assert.equal(peer.frames.filter(({ type }) => type === FrameType.settings).length, 2); // its own, and one acknowledgement
  });

  it('gives up an answer of more than four MiB, and only that', async () => {
    let answers = 0;
    const part = (stream: number): Buffer => encodeFrame(FrameType.data, 0, stream, Buffer.alloc(16_000));
    const peer = await framesPeer((peer, stream) =>
      peer.send(...(answers++ === 0 ? Array.from({ length: 300 }, () => part(stream)) : whole(stream))),
    );
    const one = client(peer.target);
    assert.match(await refused(one.call('/x', hello, null, 5000)), /more than 4194304 bytes/);
    assert.deepEqual(await one.call('/x', hello, null, 5000), hello);
  });

  it('says of a server of another protocol that it is one', async () => {
    const http1 = createHttp1((_, response) => response.end());
    const target = await listening(http1);
    assert.match(await refused(client(target).call('/x', hello, null, 5000)), /HTTP\/2 is broken|lost/);
  });

  it('says of a peer without settings that it speaks no HTTP/2', async () => {
    const peer = await framesPeer(() => undefined, encodeFrame(FrameType.ping, 0, 0, Buffer.alloc(8)));
    assert.match(await refused(client(peer.target).call('/x', hello, null, 5000)), /no SETTINGS first/);
  });
});
