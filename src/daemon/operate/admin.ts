/**
 * The admin socket: HTTP on a Unix socket that only the daemon's own user can connect to. It answers what is not for
 * everyone on the machine to read (endpoints' names), and changes what an operator may change in a running flapd.
 *
 *     GET /status                 flapd status
 *     GET /endpoints?etcd=true    flapd endpoints
 *     GET, PUT /log-level         flapd loglevel
 *
 * Answers are JSON; those to what cannot be done have an `error`.
 */
import { chmodSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { listenOn } from '../../sources/felix/socket-file.js';
import type { Log } from '../../telemetry/log.js';

export interface AdminOptions {
  readonly socketPath: string;
  readonly status: () => object;
  /** Rejects where etcd is asked for and does not answer. */
  readonly endpoints: (withEtcd: boolean) => Promise<object>;
  readonly log: Log;
}

const bodyBytesMax = 1024;
/** The flapd that this one takes over from may still have the socket. */
const listenAgainMs = 2000;
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error'] as const;

export class AdminSocket {
  readonly #options: AdminOptions;
  #server: Server;
  #timer: NodeJS.Timeout | null = null;
  #stopped = false;

  constructor(options: AdminOptions) {
    this.#options = options;
    this.#server = this.#newServer();
  }

  /** Reporting does without it: where it cannot be had, that is said once, and tried again. */
  async start(): Promise<void> {
    const { log } = this.#options;
    try {
      await this.#listen();
    } catch (error) {
      log.warn(
        { why: error instanceof Error ? error.message : String(error) },
        'no admin socket: flapd status, endpoints and loglevel have nobody to ask; trying again',
      );
      this.#listenAgain();
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (!this.#server.listening) return;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  #newServer(): Server {
    const server = createServer({ requestTimeout: 5000, headersTimeout: 5000 }, (request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        send(response, 503, { error: error instanceof Error ? error.message : String(error) });
      });
    });
    server.maxConnections = 16;
    return server;
  }

  async #listen(): Promise<void> {
    const { socketPath, log } = this.#options;
    const server = this.#newServer();
    await listenOn(server, socketPath, null, { name: 'admin socket', option: '--set admin.socket=' });
    chmodSync(socketPath, 0o600);
    server.on('error', (error) => log.warn({ error: error.message }, 'the admin socket failed'));
    this.#server = server;
  }

  #listenAgain(): void {
    this.#timer = setTimeout(() => {
      this.#listen().then(
        () => {
          if (this.#stopped) void this.stop();
          else this.#options.log.info({ socket: this.#options.socketPath }, 'the admin socket is open now');
        },
        () => {
          if (!this.#stopped) this.#listenAgain();
        },
      );
    }, listenAgainMs);
    this.#timer.unref();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { log, status, endpoints } = this.#options;
    const url = new URL(request.url ?? '/', 'http://admin');
    switch (`${request.method} ${url.pathname}`) {
      case 'GET /status':
        send(response, 200, status());
        return;
      case 'GET /endpoints':
        send(response, 200, await endpoints(url.searchParams.get('etcd') === 'true'));
        return;
      case 'GET /log-level':
        send(response, 200, { level: log.level });
        return;
      case 'PUT /log-level': {
        const level = (await bodyOf(request)).trim();
        if (!(logLevels as readonly string[]).includes(level)) {
          send(response, 400, { error: `${JSON.stringify(level)} is none of ${logLevels.join(', ')}` });
          return;
        }
        const before = log.level;
        log.level = level;
        log.warn({ before, level }, 'the level of the log was changed through the admin socket');
        send(response, 200, { level });
        return;
      }
      default:
        send(response, 404, { error: `there is no ${request.method} ${url.pathname}` });
    }
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) throw new Error(`the request has more than ${bodyBytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function send(response: ServerResponse, status: number, content: object): void {
  const body = `${JSON.stringify(content)}\n`;
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  });
  response.end(body);
}
