/** What etcd shows of itself in a TLS handshake, and whether it takes what we show. */
import type { X509Certificate } from 'node:crypto';
import { connect, type TLSSocket } from 'node:tls';
import type { OpenedConnection } from '../../etcd/connection.js';
import { type Finding, fine, found } from '../finding.js';
import { judgeDates, oneLine } from './certificates.js';

export type Handshake =
  | {
      readonly kind: 'done';
      readonly certificate: X509Certificate;
      /** OpenSSL's or node's code; null: it is whom we asked for. */
      readonly wrong: string | null;
      /** Why etcd hung up after it; null: it did not. */
      readonly refused: string | null;
    }
  /** Not even that: etcd's own check says so. */
  | { readonly kind: 'failed'; readonly message: string };

/** HTTP/2's preface and an empty SETTINGS frame: etcd says nothing before it has heard that (RFC 9113, 3.4). */
const hello = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);

/** `target` is `host:port`. With TLS 1.3 a server refuses our certificate only after the handshake: so its first word is waited for. */
export function shakeHands(
  target: string,
  tls: NonNullable<OpenedConnection['tls']>,
  deadlineMs: number,
): Promise<Handshake> {
  const at = target.lastIndexOf(':');
  const host = target.slice(0, at).replace(/^\[|\]$/g, '');
  return new Promise((resolve) => {
    let done: { certificate: X509Certificate; wrong: string | null } | null = null;
    const socket = connect({
      host,
      port: Number(target.slice(at + 1)),
      ca: tls.ca,
      ...(tls.cert !== null && tls.key !== null ? { cert: tls.cert, key: tls.key } : {}),
      ALPNProtocols: ['h2'],
      // It is looked at all the same: what is wrong is what we are after.
      rejectUnauthorized: false,
    });
    const finish = (message: string | null): void => {
      clearTimeout(timer);
      socket.destroy();
      if (done !== null) resolve({ kind: 'done', ...done, refused: message });
      else resolve({ kind: 'failed', message: message ?? 'the connection was closed' });
    };
    const timer = setTimeout(() => finish(`no answer within ${deadlineMs} ms`), deadlineMs);
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerX509Certificate();
      if (certificate === undefined) return finish('it shows no certificate');
      done = { certificate, wrong: problemOf(socket) };
      socket.write(hello);
    });
    socket.once('data', () => finish(null));
    socket.once('end', () => finish('etcd has closed the connection'));
    socket.on('error', (error) => finish(error.message));
  });
}

function problemOf(socket: TLSSocket): string | null {
  if (socket.authorized) return null;
  return String(socket.authorizationError ?? 'it is not to be trusted');
}

/** Pure, but for reading the certificates. */
export function judgeHandshake(endpoint: string, hands: Handshake, ca: string, nowMs: number): Finding[] {
  if (hands.kind === 'failed') {
    // A server that speaks no TLS, or is not there, is told of with the endpoints.
    if (!/alert|certificate required/i.test(hands.message)) return [];
    return [refused(endpoint, hands.message)];
  }
  const { certificate, wrong } = hands;
  const findings = judgeDates(certificate, `the certificate of ${endpoint}`, false, nowMs);
  const dated = findings.some(({ level }) => level === 'problem');
  if (wrong === 'ERR_TLS_CERT_ALTNAME_INVALID')
    findings.push(
      found(
        'tls-name',
        `${endpoint} shows a certificate for ${certificate.subjectAltName ?? oneLine(certificate.subject)}`,
        'use one of these names in etcd.endpoints, or have the certificate issued with the name that is there now',
      ),
    );
  else if (wrong !== null && !dated)
    findings.push(
      found(
        'tls-authority',
        `${endpoint} shows a certificate issued by ${oneLine(certificate.issuer)}, for which ${ca} does not vouch (${wrong})`,
        "put the certificate of the authority that issued etcd's into the file that etcd.caFile names",
      ),
    );
  if (hands.refused !== null) findings.push(refused(endpoint, hands.refused));
  if (findings.length === 0)
    findings.push(
      fine(
        'tls',
        `${endpoint} is whom we asked for, until ${new Date(certificate.validTo).toISOString().slice(0, 10)}`,
      ),
    );
  return findings;
}

function refused(endpoint: string, message: string): Finding {
  return found(
    'tls-refused',
    `${endpoint} does not take flapd's certificate, or wants one: ${message}`,
    'a certificate of the CA that etcd trusts (its --trusted-ca-file), in etcd.certFile with its key in etcd.keyFile',
  );
}
