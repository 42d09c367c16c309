/** Metrics and health over HTTP: a few GETs, for the machine itself unless told otherwise. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { Registry } from 'prom-client';
import { Exposer, formatFor } from './exposition.js';
import type { Health } from './health.js';
import { page } from './page.js';

export interface HttpOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** Reject where the address is taken; else warn, and try again. */
  readonly required: boolean;
  readonly registry: Registry;
  readonly health: () => Health;
  /** For the page at `/`. */
  readonly about: () => object;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
  readonly limits?: Partial<HttpLimits>;
}

export interface HttpLimits {
  /** Scrapes at a time: the next one is told to come back. */
  readonly scrapesMax: number;
  /** The next connection is closed at once. */
  readonly connectionsMax: number;
  /** An answer that its reader has not taken by then is given up, and with it its place among the scrapes. */
  readonly answerTimeoutMs: number;
  readonly listenAgainMs: number;
}

const standardLimits: HttpLimits = {
  scrapesMax: 2,
  connectionsMax: 256,
  answerTimeoutMs: 10_000,
  listenAgainMs: 30_000,
};

export class HttpAddressError extends Error {
  readonly code = 'HTTP_ADDRESS';
}

export class HttpServer {
  readonly #options: HttpOptions;
  readonly #limits: HttpLimits;
  readonly #server: Server;
  readonly #exposer: Exposer;
  #timer: NodeJS.Timeout | null = null;
  #stopped = false;
  #scrapes = 0;

  constructor(options: HttpOptions) {
    this.#options = options;
    this.#limits = { ...standardLimits, ...options.limits };
    this.#exposer = new Exposer(options.registry);
    this.#server = createServer(
      {
        requestTimeout: 10_000,
        headersTimeout: 5_000,
        keepAliveTimeout: 5_000,
        connectionsCheckingInterval: 1_000,
        maxHeaderSize: 8192,
      },
      (request, response) => {
        this.#answer(request, response).catch((error: unknown) => {
          options.log.warn({ error: String(error) }, 'a request could not be answered');
          response.destroy();
        });
      },
    );
    this.#server.maxConnections = this.#limits.connectionsMax;
  }

  /** The port that it listens on: of interest where 0 was asked for. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : this.#options.port;
  }

  get listening(): boolean {
    return this.#server.listening;
  }

  /** Rejects with an HttpAddressError where the address cannot be had and HTTP is required. */
  async start(): Promise<void> {
    const { host, port, required, log } = this.#options;
    try {
      await this.#listen();
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (required)
        throw new HttpAddressError(
          `cannot serve HTTP on ${host}:${port}: ${why}. Choose another address (--http HOST:PORT)`,
          { cause: error },
        );
      log.warn({ host, port, why }, 'no HTTP: neither metrics nor health are served; trying again');
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

  /** It is said once that the address is taken, and once that it no longer is. */
  #listenAgain(): void {
    this.#timer = setTimeout(() => {
      this.#listen().then(
        () => {
          if (this.#stopped) void this.stop();
          else this.#options.log.info({ port: this.port }, 'HTTP is served now');
        },
        () => this.#listenAgain(),
      );
    }, this.#limits.listenAgainMs);
    this.#timer.unref();
  }

  #listen(): Promise<void> {
    const server = this.#server;
    server.removeAllListeners('error');
    return new Promise((resolve, reject) => {
      const onError = (error: Error): void => {
        server.off('listening', onListening);
        reject(error);
      };
      const onListening = (): void => {
        server.off('error', onError);
        // Such as too many open files: it goes on with the next connection.
        server.on('error', (error) =>
          this.#options.log.warn({ error: error.message }, 'the HTTP server failed'),
        );
        resolve();
      };
      server.once('error', onError);
      server.once('listening', onListening);
      server.listen(this.#options.port, this.#options.host);
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const timer = setTimeout(() => response.destroy(), this.#limits.answerTimeoutMs);
    response.once('close', () => clearTimeout(timer));
    response.setHeader('X-Content-Type-Options', 'nosniff');
    response.setHeader('Content-Security-Policy', "default-src 'none'");
    response.setHeader('Cache-Control', 'no-store');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      response.setHeader('Connection', 'close'); // whatever else it sends is not read
      send(response, 405, 'only GET here\n');
      return;
    }
    if (!isOurName(request.headers.host, this.#options.host)) {
      send(response, 421, 'this server answers to its address and to localhost only\n');
      return;
    }
    await this.#route(request, response);
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    switch ((request.url ?? '/').split('?')[0]) {
      case '/metrics':
        await this.#metrics(request, response);
        return;
      case '/livez':
      case '/liveness':
        send(response, 200, 'alive\n');
        return;
      case '/readyz':
      case '/readiness': {
        const health = this.#options.health();
        send(response, health.ready ? 200 : 503, `${JSON.stringify(health)}\n`, 'application/json');
        return;
      }
      case '/':
        send(response, 200, page(this.#options.about(), this.#options.health()), 'text/html; charset=utf-8');
        return;
      default:
        send(response, 404, 'not found; there are /metrics, /livez and /readyz\n');
    }
  }

  async #metrics(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#scrapes >= this.#limits.scrapesMax) {
      response.setHeader('Retry-After', '1');
      send(response, 503, 'too many scrapes at a time\n');
      return;
    }
    this.#scrapes++;
    response.once('close', () => {
      this.#scrapes--;
    });
    const { body, contentType } = await this.#exposer.render(formatFor(request.headers.accept));
    send(response, 200, body, contentType);
  }
}

/**
 * Whether a request means this server. A name that a stranger's DNS made to point at the loopback (rebinding) is not
 * ours, and a browser on this machine would hand the stranger's page what it reads. Addresses cannot be rebound.
 */
export function isOurName(hostHeader: string | undefined, boundTo: string): boolean {
  const loopback = boundTo === 'localhost' || boundTo === '::1' || boundTo.startsWith('127.');
  if (hostHeader === undefined || !loopback) return true;
  const name = hostHeader
    .replace(/:\d*$/, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  return name === 'localhost' || isIP(name) !== 0;
}

function send(
  response: ServerResponse,
  status: number,
  body: string,
  type = 'text/plain; charset=utf-8',
): void {
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) });
  response.end(response.req.method === 'HEAD' ? undefined : body);
}
