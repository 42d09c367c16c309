/**
 * The process that holds the rtnetlink socket: it copies what the kernel says to its output, and what comes in to the
 * kernel. It is a process of its own for two reasons, both measured:
 *
 * - When the kernel drops messages while nobody is reading, the next poll reports an error, and npm netlink 0.3.0 ends
 *   its process then (it throws through libuv; nothing in JavaScript can catch that). Here that ends only this process,
 *   and stands for the overrun that it is.
 * - 20 us of CPU for each message is spent here and not on the main thread, which may be busy without losing any.
 *
 * Out: frames of length u32, kind u8, content (little-endian); in: requests as the kernel takes them. It ends with its
 * input, that is, with the process that started it, however that ended.
 */
import { Protocol, RawNetlinkSocket } from 'netlink';
import { FrameKind } from './reader-frames.js';

const group = { link: 1, ipv4Address: 5, ipv6Address: 9 } as const;
/** What the other side does not take is kept up to here; beyond, it is dropped as the kernel would, and said so. */
const unreadBytesMax = 64 * 1024 * 1024;

let batch: Buffer[] = [];
let dropped = false;

function tell(kind: FrameKind, content: Buffer): void {
  const header = Buffer.allocUnsafe(5);
  header.writeUInt32LE(content.length, 0);
  header[4] = kind;
  if (batch.length === 0) setImmediate(flush);
  batch.push(header, content);
}

function flush(): void {
  process.stdout.write(Buffer.concat(batch));
  batch = [];
}

function onMessage(datagram: Buffer): void {
  if (process.stdout.writableLength > unreadBytesMax) {
    dropped = true;
    return;
  }
  if (dropped) tell(FrameKind.overrun, Buffer.alloc(0));
  dropped = false;
  tell(FrameKind.message, datagram);
}

function onError(error: Error & { code?: string }): void {
  if (error.code === 'ENOBUFS') tell(FrameKind.overrun, Buffer.alloc(0));
  else fail(error);
}

function fail(error: Error): void {
  tell(FrameKind.failed, Buffer.from(error.message));
  setImmediate(() => process.stdin.destroy());
}

// Signals to the whole group (Ctrl-C) are for the one that started it.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
process.stdout.on('error', () => process.exit(0)); // nobody listens any more
process.stdin.on('end', () => process.exit(0));
try {
  const socket = new RawNetlinkSocket(Protocol.ROUTE, {
    // Asking for each message's size first costs a system call, and saves the package from clearing and giving away a
    // buffer as large as the largest part of a dump for each: 20 us of CPU instead of 39, RSS 67 MiB instead of 245.
    messagePeeking: true,
    recvBufferSize: Number(process.argv[2]),
    sendBufferSize: 64 * 1024,
  });
  socket.on('message', onMessage);
  socket.on('error', onError);
  for (const membership of Object.values(group)) socket.addMembership(membership);
  const hello = Buffer.alloc(8);
  hello.writeUInt32LE(socket.address().port, 0);
  hello.writeUInt32LE(socket.getRecvBufferSize(), 4);
  tell(FrameKind.hello, hello);
  process.stdin.on('data', (request: Buffer) => {
    socket.send(request, {}, (error) => {
      if (error) fail(error);
    });
  });
  process.stdin.on('close', () => socket.close());
} catch (error) {
  fail(error as Error);
}
