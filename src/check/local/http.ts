/** Whether metrics and health can be served, or are by the flapd that runs. */
import { createServer } from 'node:net';
import { type Finding, fine, found } from '../finding.js';

export interface HttpWanted {
  readonly host: string;
  readonly port: number;
}

const answerMs = 2000;

export async function checkHttp(wanted: HttpWanted | null): Promise<{
  readonly findings: Finding[];
  /** A flapd serves there. */
  readonly running: boolean;
}> {
  if (wanted === null)
    return { findings: [fine('http', 'off: neither metrics nor health are served')], running: false };
  const { host, port } = wanted;
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const code = await tryListen(wanted);
  if (code === null) return { findings: [fine('http', `${address} is free`)], running: false };
  if (code !== 'EADDRINUSE')
    return {
      findings: [
        found(
          'http-address',
          `HTTP cannot be served on ${address}: ${code}`,
          code === 'EACCES'
            ? 'a port above 1023, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit: --http HOST:PORT'
            : 'an address that this machine has (ip address): --http HOST:PORT; --http off for none',
        ),
      ],
      running: false,
    };
  if (await isFlapd(address))
    return { findings: [fine('http', `${address} is served by the flapd that runs`)], running: true };
  return {
    findings: [
      found(
        'http-taken',
        `another process has ${address}: neither metrics nor health could be served`,
        `find out which: ss -tlnp 'sport = :${port}'; end it, or another address: --http HOST:PORT`,
      ),
    ],
    running: false,
  };
}

/** Null: it could be had, and was given back. */
function tryListen({ host, port }: HttpWanted): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen(port, host, () => server.close(() => resolve(null)));
  });
}

async function isFlapd(address: string): Promise<boolean> {
  try {
    const response = await fetch(`http://${address}/metrics`, { signal: AbortSignal.timeout(answerMs) });
    return (await response.text()).includes('flapd_build_info');
  } catch {
    return false;
  }
}
