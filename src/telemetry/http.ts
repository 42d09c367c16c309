/** Metrics and health over HTTP: a few GETs, for the machine itself unless told otherwise. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import { Registry } from 'prom-client';
import type { Health } from './health.js';

export interface HttpOptions {
  readonly host: string;
  readonly port: number;
  /** Reject where the address is taken; else warn, and try again every 30 s. */
  readonly required: boolean;
  readonly registry: Registry;
  readonly health: () => Health;
  /** For the page at `/`. */
  readonly about: () => object;
  readonly log: { info(fields: object, message: string): void; warn(fields: object, message: string): void };
}

/** Scrapes at a time: the third is told to come back. */
const scrapesMax = 2;
const listenAgainMs = 30_000;

export class HttpServer {
  readonly #options: HttpOptions;
  readonly #server: Server;
  #timer: NodeJS.Timeout | null = null;
  #scrapes = 0;

  constructor(options: HttpOptions) {
    this.#options = options;
    this.#server = createServer(
      { requestTimeout: 10_000, headersTimeout: 5_000, keepAliveTimeout: 5_000, maxHeaderSize: 8192 },
      (request, response) => {
        this.#answer(request, response).catch((error: unknown) => {
          options.log.warn({ error: String(error) }, 'a request could not be answered');
          response.destroy();
        });
      },
    );
    this.#server.maxConnections = 256;
  }

  /** The port that it listens on: of interest where 0 was asked for. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : this.#options.port;
  }

  /** Rejects where the address is taken and HTTP is required. */
  async start(): Promise<void> {
    try {
      await this.#listen();
    } catch (error) {
      const { host, port, required, log } = this.#options;
      const why = error instanceof Error ? error.message : String(error);
      if (required)
        throw new Error(
          `cannot serve HTTP on ${host}:${port}: ${why}. Choose another address (--http HOST:PORT)`,
          { cause: error },
        );
      log.warn(
        { host, port, why },
        'no HTTP: neither metrics nor health are served; trying again every 30 s',
      );
      this.#timer = setTimeout(() => void this.start(), listenAgainMs);
      this.#timer.unref();
    }
  }

  async stop(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#server.closeAllConnections();
    if (this.#server.listening) await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#options.port, this.#options.host, () => {
        this.#server.off('error', reject);
        this.#server.on('error', (error) =>
          this.#options.log.warn({ error: error.message }, 'the HTTP server failed'),
        );
        resolve();
      });
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('X-Content-Type-Options', 'nosniff');
    response.setHeader('Cache-Control', 'no-store');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD');
      send(response, 405, 'only GET here\n');
      return;
    }
    if (!this.#isForUs(request.headers.host)) {
      send(response, 421, 'this server answers to its address and to localhost only\n');
      return;
    }
    const path = (request.url ?? '/').split('?')[0];
    switch (path) {
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
    if (this.#scrapes >= scrapesMax) {
      response.setHeader('Retry-After', '1');
      send(response, 503, 'too many scrapes at a time\n');
      return;
    }
    this.#scrapes++;
    response.once('close', () => {
      this.#scrapes--;
    });
    const open = /application\/openmetrics-text/.test(request.headers.accept ?? '');
    const { registry } = this.#options;
    registry.setContentType(
      (open
        ? Registry.OPENMETRICS_CONTENT_TYPE
        : Registry.PROMETHEUS_CONTENT_TYPE) as typeof Registry.PROMETHEUS_CONTENT_TYPE,
    );
    const { contentType } = registry;
    send(response, 200, await registry.metrics(), contentType);
  }

  /** A name that a stranger's DNS made to point here (rebinding) is not ours. */
  #isForUs(host: string | undefined): boolean {
    if (host === undefined) return true;
    const name = host.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
    const loopback = this.#options.host === 'localhost' || /^127\.|^::1$/.test(this.#options.host);
    return !loopback || name === 'localhost' || isIP(name) !== 0;
  }
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

function page(about: object, health: Health): string {
  const rows = Object.entries(about).map(
    ([name, value]) => `<tr><th>${escapeHtml(name)}<td>${escapeHtml(String(value))}`,
  );
  const state = health.ready ? (health.degraded ? 'ready, but degraded' : 'ready') : 'not ready';
  const reasons = health.reasons.map((reason) => `<li>${escapeHtml(reason)}`);
  return `<!doctype html><meta charset="utf-8"><title>flapd</title><h1>flapd: ${state}</h1><ul>${reasons.join('')}</ul>
<table>${rows.join('')}</table><p><a href="/metrics">metrics</a> <a href="/readyz">readyz</a> <a href="/livez">livez</a></p>\n`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
