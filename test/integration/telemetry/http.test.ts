import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingHttpHeaders, request } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { Gauge, Registry } from 'prom-client';
import type { Health } from '../../../src/telemetry/health.js';
import { HttpAddressError, type HttpOptions, HttpServer } from '../../../src/telemetry/http.js';
import { until } from '../../support/waiting.js';

const cleanups: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const ready: Health = { ready: true, degraded: false, reasons: [] };

interface Started {
  readonly server: HttpServer;
  readonly registry: Registry;
  readonly logged: string[];
  health: Health;
}

function create(options: Partial<HttpOptions> = {}): Started {
  const registry = new Registry();
  const logged: string[] = [];
  const log = (level: string) => (_: object, message: string) => void logged.push(`${level}: ${message}`);
  const started: Started = {
    registry,
    logged,
    health: ready,
    server: new HttpServer({
      host: '127.0.0.1',
      port: 0,
      required: true,
      registry,
      health: () => started.health,
      about: () => ({ version: '1.2.3' }),
      log: { info: log('info'), warn: log('warn') },
      ...options,
    }),
  };
  cleanups.push(() => started.server.stop());
  return started;
}

async function start(options: Partial<HttpOptions> = {}): Promise<Started> {
  const started = create(options);
  await started.server.start();
  return started;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

async function ask(
  { server }: Started,
  path: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const asked = request({ host: '127.0.0.1', port: server.port, path, method, headers, agent: false });
  asked.end();
  const [response] = await once(asked, 'response');
  let body = '';
  for await (const chunk of response) body += chunk;
  return { status: response.statusCode, headers: response.headers, body };
}

/** A client that sends a request for /metrics and does not read the answer. */
async function scrapeWithoutReading({ server }: Started): Promise<Socket> {
  const socket = connect({ port: server.port, host: '127.0.0.1' });
  cleanups.push(() => socket.destroy());
  socket.on('error', () => undefined); // the server hangs up, which is the point
  await once(socket, 'connect');
  socket.pause();
  socket.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
  return socket;
}

/** More than the kernel's buffers on both sides hold, so that an answer waits for its reader. */
function makeLarge(registry: Registry): void {
  const gauge = new Gauge({
    name: 'large',
    help: 'x'.repeat(1000),
    labelNames: ['n'],
    registers: [registry],
  });
  for (let n = 0; n < 4000; n++) gauge.set({ n: `${n}${'y'.repeat(4000)}` }, 1);
}

describe('paths', () => {
  test('metrics come in the format asked for', async () => {
    const started = await start();
    new Gauge({ name: 'flapd_x', help: 'x', registers: [started.registry] }).set(5);
    const plain = await ask(started, '/metrics?x=1');
    assert.equal(plain.status, 200);
    assert.match(plain.headers['content-type']!, /^text\/plain; version=0\.0\.4/);
    assert.match(plain.body, /^flapd_x 5$/m);
    const open = await ask(started, '/metrics', { headers: { Accept: 'application/openmetrics-text' } });
    assert.match(open.headers['content-type']!, /^application\/openmetrics-text/);
    assert.match(open.body, /# EOF\n$/);
  });

  for (const path of ['/livez', '/liveness'])
    test(`${path} is fine while the process answers, ready or not`, async () => {
      const started = await start();
      started.health = { ready: false, degraded: false, reasons: ['etcd'] };
      assert.equal((await ask(started, path)).status, 200);
    });

  for (const path of ['/readyz', '/readiness'])
    test(`${path} says whether flapd is ready, and if not why`, async () => {
      const started = await start();
      const good = await ask(started, path);
      assert.deepEqual([good.status, JSON.parse(good.body)], [200, ready]);
      started.health = { ready: true, degraded: true, reasons: ['queue: full'] };
      const degraded = await ask(started, path);
      assert.deepEqual([degraded.status, JSON.parse(degraded.body)], [200, started.health]);
      started.health = { ready: false, degraded: false, reasons: ['etcd: away'] };
      const bad = await ask(started, path);
      assert.deepEqual([bad.status, JSON.parse(bad.body)], [503, started.health]);
      assert.equal(bad.headers['content-type'], 'application/json');
    });

  test('/ is a page that runs nothing', async () => {
    const answer = await ask(await start(), '/');
    assert.equal(answer.status, 200);
    assert.match(answer.body, /flapd: ready/);
    assert.equal(answer.headers['content-security-policy'], "default-src 'none'");
    assert.equal(answer.headers['x-content-type-options'], 'nosniff');
  });

  test('anything else is not found', async () => {
    assert.equal((await ask(await start(), '/debug/pprof')).status, 404);
  });

  test('HEAD is GET without the body', async () => {
    const answer = await ask(await start(), '/livez', { method: 'HEAD' });
    assert.deepEqual([answer.status, answer.headers['content-length'], answer.body], [200, '6', '']);
  });

  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
    test(`${method} is not allowed`, async () => {
      const answer = await ask(await start(), '/readyz', { method });
      assert.deepEqual([answer.status, answer.headers.allow], [405, 'GET, HEAD']);
    });
});

test("a stranger's name that was made to point here gets no answer", async () => {
  const started = await start();
  const answer = await ask(started, '/metrics', { headers: { Host: 'evil.example' } });
  assert.equal(answer.status, 421);
  assert.equal((await ask(started, '/metrics', { headers: { Host: 'localhost' } })).status, 200);
});

test('garbage is answered with 400, and disturbs nobody', async () => {
  const started = await start();
  const socket = connect({ port: started.server.port, host: '127.0.0.1' });
  cleanups.push(() => socket.destroy());
  socket.end('\u0000\u0001 garbage\r\n\r\n');
  let answer = '';
  for await (const chunk of socket) answer += chunk;
  assert.match(answer, /^HTTP\/1\.1 400 /);
  assert.equal((await ask(started, '/livez')).status, 200);
});

describe('limits', () => {
  test('with two scrapes under way a third is told to come back, and health is still served', async () => {
    const started = await start();
    makeLarge(started.registry);
    const slow = [await scrapeWithoutReading(started), await scrapeWithoutReading(started)];
    const refused = await until('a scrape to be refused', async () => {
      const answer = await ask(started, '/metrics', { method: 'HEAD' });
      return answer.status === 503 ? answer : null;
    });
    assert.equal(refused.headers['retry-after'], '1');
    assert.equal((await ask(started, '/readyz')).status, 200);
    for (const socket of slow) socket.destroy();
    await until('scrapes to be served again', async () => (await ask(started, '/metrics')).status === 200);
  });

  test('a reader that does not read loses its place', async () => {
    const started = await start({ limits: { scrapesMax: 1, answerTimeoutMs: 300 } });
    makeLarge(started.registry);
    await scrapeWithoutReading(started);
    await until(
      'the scrape to be refused',
      async () => (await ask(started, '/metrics', { method: 'HEAD' })).status === 503,
    );
    await until(
      'its place to be free again',
      async () => (await ask(started, '/metrics', { method: 'HEAD' })).status === 200,
    );
  });

  test('one connection too many is closed at once, and there is room again after others have gone', async () => {
    const started = await start({ limits: { connectionsMax: 2 } });
    const idle: Socket[] = [];
    for (let i = 0; i < 2; i++) {
      const socket = connect({ port: started.server.port, host: '127.0.0.1' });
      cleanups.push(() => socket.destroy());
      await once(socket, 'connect');
      idle.push(socket);
    }
    await until('a connection to be refused', () =>
      ask(started, '/livez').then(
        () => false,
        (error: NodeJS.ErrnoException) => error.code === 'ECONNRESET' || error.code === 'EPIPE',
      ),
    );
    for (const socket of idle) socket.destroy();
    await until('room for another one', () =>
      ask(started, '/livez').then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
  });
});

describe('an address that is taken', () => {
  async function occupy(): Promise<{ other: Server; port: number }> {
    const other = createServer();
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    cleanups.push(() => new Promise((resolve) => other.close(resolve)));
    return { other, port: (other.address() as AddressInfo).port };
  }

  test('ends the start where HTTP is required, with the way out', async () => {
    const { port } = await occupy();
    await assert.rejects(create({ port }).server.start(), (error) => {
      assert.ok(error instanceof HttpAddressError);
      assert.equal(error.code, 'HTTP_ADDRESS');
      assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${port}: .*EADDRINUSE.*--http HOST:PORT`));
      return true;
    });
  });

  test('is tried again where it is not, said once, and served when it is free', async () => {
    const { other, port } = await occupy();
    const started = create({ port, required: false, limits: { listenAgainMs: 20 } });
    await started.server.start();
    assert.equal(started.server.listening, false);
    assert.equal(started.logged.length, 1);
    assert.match(started.logged[0]!, /^warn: no HTTP/);
    await new Promise((resolve) => other.close(resolve));
    await until('HTTP to be served', () => started.server.listening);
    assert.equal((await ask(started, '/livez')).status, 200);
    assert.deepEqual(started.logged.slice(1), ['info: HTTP is served now']);
  });

  test('is no longer tried after stop', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const { other, port } = await occupy();
    const started = create({ port, required: false });
    await started.server.start();
    await started.server.stop();
    await new Promise((resolve) => other.close(resolve));
    t.mock.timers.tick(60_000);
    // Had it tried again, it would have the address before the next one to ask.
    const heir = createServer();
    heir.listen(port, '127.0.0.1');
    await once(heir, 'listening');
    cleanups.push(() => new Promise((resolve) => heir.close(resolve)));
    assert.equal(started.server.listening, false);
  });
});

test('stop ends open connections, and can be called before start and twice', async () => {
  const started = await start();
  const socket = connect({ port: started.server.port, host: '127.0.0.1' });
  await once(socket, 'connect');
  const closed = once(socket, 'close');
  await started.server.stop();
  await closed;
  await started.server.stop();
  await create().server.stop();
});
