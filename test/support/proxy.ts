/** A TCP proxy in front of a server, with the faults of a network: answers cut off, delayed, or swallowed. */
import { connect, createServer, type Socket } from 'node:net';

export interface FaultyProxy {
  /** `http://127.0.0.1:port` */
  readonly endpoint: string;
  /** Bytes that came back from the target since the start. */
  readonly answered: number;
  /** The next n times that the target sends something, its connection is cut instead: the request has arrived, the answer is lost. */
  cutReplies(n: number): void;
  /** Nothing passes in either direction, and nobody is told. */
  blackhole(on: boolean): void;
  /** Each chunk from the target comes so much later. */
  delay(ms: number): void;
  /** Cuts every connection now. */
  cut(): void;
  close(): Promise<void>;
}

/** `target`: `http://host:port` or `host:port`. */
export async function startProxy(target: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target.includes('://') ? target : `http://${target}`);
  const pairs = new Set<{ near: Socket; far: Socket }>();
  let cuts = 0;
  let swallow = false;
  let delayMs = 0;
  let answered = 0;

  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    const pair = { near, far };
    pairs.add(pair);
    const end = () => {
      near.destroy();
      far.destroy();
      pairs.delete(pair);
    };
    near.on('data', (chunk) => {
      if (!swallow) far.write(chunk);
    });
    far.on('data', (chunk) => {
      if (swallow) return;
      if (cuts > 0 && !isBookkeeping(chunk)) {
        cuts--;
        end();
        return;
      }
      answered += chunk.length;
      if (delayMs === 0) near.write(chunk);
      else setTimeout(() => near.destroyed || near.write(chunk), delayMs);
    });
    for (const socket of [near, far]) {
      socket.on('error', end);
      socket.on('close', end);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');

  const cut = () => {
    for (const { near, far } of pairs) {
      near.destroy();
      far.destroy();
    }
  };
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    get answered() {
      return answered;
    },
    cutReplies: (n) => {
      cuts = n;
    },
    blackhole: (on) => {
      swallow = on;
    },
    delay: (ms) => {
      delayMs = ms;
    },
    cut,
    close: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Whether an HTTP/2 chunk holds nothing of an answer: no HEADERS (1), DATA (0) or RST_STREAM (3) frame (RFC 9113, section 4.1). */
function isBookkeeping(chunk: Buffer): boolean {
  for (let at = 0; at + 9 <= chunk.length; at += 9 + chunk.readUIntBE(at, 3)) {
    const type = chunk[at + 3]!;
    if (type === 0 || type === 1 || type === 3) return false;
  }
  return true;
}
