/**
 * Reads a watch from etcd's JSON gateway, as Neutron's etcd3gw does, and measures the answers: etcd3gw up to 2.4.0
 * silently loses its watch where one is longer than 2,048 bytes (docs/design.md, section 8). A watch of what is to
 * come has one answer for each transaction; one of the past packs many into one, and would say nothing.
 */
import { prefixEnd } from '../../etcd/prefix.js';

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
  readonly #body: string;
  readonly #stop = new AbortController();
  readonly #created: Promise<void>;
  #onCreated: () => void = () => undefined;
  #running: Promise<void> = Promise.resolve();
  #lastError = 'no answer yet';

  constructor(endpoint: string, prefix: string) {
    this.#url = `${endpoint.replace(/\/+$/, '')}/v3/watch`;
    this.#body = JSON.stringify({
      create_request: {
        key: Buffer.from(prefix).toString('base64'),
        range_end: prefixEnd(Buffer.from(prefix)).toString('base64'),
      },
    });
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
        const response = await fetch(this.#url, { method: 'POST', body: this.#body, signal });
        if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
        await this.#read(response.body);
      } catch (error) {
        this.#lastError = error instanceof Error ? error.message : String(error);
      }
      if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, reopenMs));
    }
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    let rest = Buffer.alloc(0);
    for await (const chunk of body) {
      rest = Buffer.concat([rest, chunk]);
      for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
        this.#answer(rest.subarray(0, end + 1));
        rest = rest.subarray(end + 1);
      }
    }
  }

  #answer(line: Buffer): void {
    const answer = JSON.parse(line.toString('utf8')) as {
      error?: { message?: string };
      result?: { created?: boolean; events?: unknown[] };
    };
    if (answer.error !== undefined) throw new GatewayError(`it says ${answer.error.message}`);
    if (answer.result?.created === true) this.#onCreated();
    if ((answer.result?.events?.length ?? 0) === 0) return;
    this.answers++;
    this.bytesMax = Math.max(this.bytesMax, line.length);
  }
}
