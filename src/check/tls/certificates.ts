/** Certificates as they are: which of them, of the files' and of etcd's, is valid, and until when. Pure. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { type Finding, found } from '../finding.js';

const day = 24 * 60 * 60_000;
const soonMs = 14 * day;

/** All certificates of a PEM file. Throws where it holds none, or a damaged one. */
export function certificatesIn(pem: Buffer): X509Certificate[] {
  const blocks = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
  if (blocks === null) throw new Error('there is no certificate in it (PEM, BEGIN CERTIFICATE)');
  return blocks.map((block) => new X509Certificate(block));
}

/** `whose` such as "the CA in /etc/…/ca.pem"; `inFile`: it is one of flapd's own files. */
export function judgeDates(
  certificate: X509Certificate,
  whose: string,
  inFile: boolean,
  nowMs: number,
): Finding[] {
  const [from, to] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)];
  const name = `${whose} (${oneLine(certificate.subject)})`;
  if (nowMs > to)
    return [
      found(
        'tls-expired',
        `${name} has expired on ${isoDay(to)}`,
        inFile
          ? 'have it issued anew, and put it in place of the old file; flapd takes it without a restart'
          : 'have it issued anew, and put it in the place that --cert-file of etcd names',
      ),
    ];
  if (nowMs < from)
    return [
      found(
        'tls-not-yet-valid',
        `${name} is valid from ${new Date(from).toISOString()} on, and this machine's clock says ${new Date(nowMs).toISOString()}`,
        "set this machine's clock right (timedatectl, chronyc tracking), or wait",
      ),
    ];
  if (to - nowMs < soonMs)
    return [
      found(
        'tls-expires-soon',
        `${name} expires on ${isoDay(to)}, in ${Math.floor((to - nowMs) / day)} days`,
        'have it issued anew before that day; neither flapd nor etcd needs a restart for it',
      ),
    ];
  return [];
}

/** Null: they belong together. */
export function judgePair(
  certificate: X509Certificate,
  key: Buffer,
  files: { readonly cert: string; readonly key: string },
): Finding | null {
  if (certificate.checkPrivateKey(createPrivateKey(key))) return null;
  return found(
    'tls-pair',
    `${files.key} is not the key of the certificate in ${files.cert}`,
    `name the key that this certificate was made with in etcd.keyFile; both of these print the same where they fit: ` +
      `openssl x509 -in ${files.cert} -noout -pubkey; openssl pkey -in ${files.key} -pubout`,
  );
}

export function oneLine(subject: string): string {
  return subject.replaceAll('\n', ', ');
}

function isoDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
