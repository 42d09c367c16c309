/** The files that TLS and the password take: there, readable, what they should be, and of one another. */
import { readFileSync } from 'node:fs';
import type { EtcdConnection } from '../../etcd/connection.js';
import { type Finding, found } from '../finding.js';
import { certificatesIn, judgeDates, judgePair } from './certificates.js';

export function checkFiles(connection: EtcdConnection, nowMs: number): Finding[] {
  const { caFile, certFile, keyFile, passwordFile } = connection;
  const secure = connection.endpoints.some((endpoint) => /^https:/i.test(endpoint));
  const findings: Finding[] = [];
  if (passwordFile !== undefined) readOr(findings, passwordFile, 'etcd.passwordFile');
  if (!secure) return findings;
  if (caFile !== undefined) {
    const certificates = parseOr(findings, caFile, 'etcd.caFile');
    for (const certificate of certificates)
      findings.push(...judgeDates(certificate, `the CA in ${caFile}`, true, nowMs));
  }
  if (certFile === undefined || keyFile === undefined) return findings;
  const [certificate] = parseOr(findings, certFile, 'etcd.certFile');
  const key = readOr(findings, keyFile, 'etcd.keyFile');
  if (certificate !== undefined)
    findings.push(...judgeDates(certificate, `flapd's certificate in ${certFile}`, true, nowMs));
  if (certificate === undefined || key === null) return findings;
  try {
    const pair = judgePair(certificate, key, { cert: certFile, key: keyFile });
    if (pair !== null) findings.push(pair);
  } catch (error) {
    findings.push(unusable(keyFile, 'etcd.keyFile', `it holds no private key (${(error as Error).message})`));
  }
  return findings;
}

function parseOr(findings: Finding[], path: string, setting: string) {
  const pem = readOr(findings, path, setting);
  if (pem === null) return [];
  try {
    return certificatesIn(pem);
  } catch (error) {
    findings.push(unusable(path, setting, (error as Error).message));
    return [];
  }
}

function readOr(findings: Finding[], path: string, setting: string): Buffer | null {
  try {
    return readFileSync(path);
  } catch (error) {
    findings.push(unusable(path, setting, (error as Error).message));
    return null;
  }
}

function unusable(path: string, setting: string, why: string): Finding {
  return found(
    'tls-file',
    `${path} (${setting}) is no use: ${why}`,
    `correct the path in ${setting}, or see to the file: chown it to flapd's user, chmod 0600 ${path}`,
  );
}
