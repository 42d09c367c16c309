/**
 * Reads a watch from etcd's JSON gateway, as Neutron's etcd3gw does, and measures the answers: etcd3gw up to 2.4.0
 * silently loses its watch where one is longer than 2,048 bytes (docs/design.md, section 8). A watch of what is to
 * come has one answer for each transaction; one of the past packs many into one, and would say nothing.
 *
 * The gateway's protocol (etcd, rpc.proto by grpc-gateway): the request is JSON with keys in base64, the answer is a
 * chunked body of one JSON object a line. A number of 64 bits is a string; a field that has its default is left out.
 */
import { prefixEnd } from '../../etcd/prefix.js';

export interface GatewayEvent {
  /** Left out: PUT. */
  readonly type?: 'DELETE';
  readonly kv: { readonly key: string; readonly value?: string; readonly mod_revision: string };
}

export interface GatewayAnswer {
  /** Of its line. */
  readonly bytes: number;
  /** It says that the watch is there, and nothing else. */
  readonly created: boolean;
  readonly events: readonly GatewayEvent[];
}

/** What flapd's own limit is by default. */
export const watchAnswerBytesMax = 2000;

const reopenMs = 200;

export class GatewayError extends Error {
  readonly code = 'STORM_GATEWAY';
}

export class GatewayWatch {
  /** Of the longest answer that carried events. */
  bytesMax = 0;
  answers = 0;
  readonly #url: string;
  readonly #prefix: string;
  readonly #stop = new AbortController();
  readonly #created: Promise<void>;
  #onCreated: () => void = () => undefined;
  #running: Promise<void> = Promise.resolve();
  #lastError = 'no answer yet';

  constructor(endpoint: string, prefix: string) {
    this.#url = gatewayUrl(endpoint, 'watch');
    this.#prefix = prefix;
    this.#created = new Promise((resolve) => {
      this.#onCreated = resolve;
    });
  }

  /** Resolves when etcd has said that the watch is there: every later transaction is measured. */
  async start(deadlineMs: number): Promise<void> {
    this.#running = this.#run();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () =>
          reject(
            new GatewayError(`${this.#url} did not open a watch within ${deadlineMs} ms: ${this.#lastError}`),
          ),
        deadlineMs,
      );
    });
    await Promise.race([this.#created, late]).finally(() => clearTimeout(timer));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  /** Opens it again where etcd went away; what was written meanwhile is not measured. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        for await (const answer of watchGateway(this.#url, this.#prefix, 0, signal)) this.#answer(answer);
      } catch (error) {
        this.#lastError = error instanceof Error ? error.message : String(error);
      }
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, reopenMs));
    }
  }

  #answer({ bytes, created, events }: GatewayAnswer): void {
    if (created) this.#onCreated();
    if (events.length === 0) return;
    this.answers++;
    this.bytesMax = Math.max(this.bytesMax, bytes);
  }
}

/** The address of one of the gateway's calls; `endpoint` as `http://host:port`. */
export function gatewayUrl(endpoint: string, call: string): string {
  return `${endpoint.replace(/\/+$/, '')}/v3/${call}`;
}

/** A request's range of all keys with this prefix. */
export function gatewayRange(prefix: string): { key: string; range_end: string } {
  return {
    key: Buffer.from(prefix).toString('base64'),
    range_end: prefixEnd(Buffer.from(prefix)).toString('base64'),
  };
}

/**
 * The answers of one watch from this revision on, 0: from now on. Ends where the connection does; throws what fetch
 * does, and a GatewayError where etcd refuses. Answers larger than one chunk come whole.
 */
export async function* watchGateway(
  url: string,
  prefix: string,
  fromRevision: number,
  signal: AbortSignal,
): AsyncGenerator<GatewayAnswer> {
  const from = fromRevision > 0 ? { start_revision: fromRevision } : {};
  const body = JSON.stringify({ create_request: { ...gatewayRange(prefix), ...from } });
  const response = await fetch(url, { method: 'POST', body, signal });
  if (!response.ok || response.body === null) throw new GatewayError(`status ${response.status}`);
  let rest = Buffer.alloc(0);
  for await (const chunk of response.body) {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
      yield decodeAnswer(rest.subarray(0, end + 1));
      rest = rest.subarray(end + 1);
    }
  }
}

function decodeAnswer(line: Buffer): GatewayAnswer {
  const { error, result } = JSON.parse(line.toString('utf8')) as {
    error?: { message?: string };
    result?: { created?: boolean; canceled?: boolean; events?: GatewayEvent[] };
  };
  if (error !== undefined) throw new GatewayError(`it says ${error.message}`);
  if (result?.canceled === true) throw new GatewayError('it has cancelled the watch');
  return { bytes: line.length, created: result?.created === true, events: result?.events ?? [] };
}
