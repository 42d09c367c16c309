/** Certificates for tests: made by openssl in a folder of their own. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

export class Certificates {
  readonly folder = mkdtempSync(join(tmpdir(), 'flapd-tls-'));

  /** Of a file in the folder: `<name>.pem` is a certificate, `<name>.key` its key. */
  path(file: string): string {
    return join(this.folder, file);
  }

  authority(name: string, { days = 2 } = {}): void {
    this.#openssl([
      ...['req', '-x509', ...ec, '-days', String(days), '-subj', `/CN=${name}`],
      ...['-keyout', `${name}.key`, '-out', `${name}.pem`],
    ]);
  }

  /** For a server and a client on 127.0.0.1; `days` may be 0: expired as soon as it is made. `cn`: the name unless told otherwise. */
  certificate(name: string, authority: string, { days = 2, cn = name, ip = '127.0.0.1' } = {}): void {
    writeFileSync(
      this.path(`${name}.ext`),
      `subjectAltName=IP:${ip}\nextendedKeyUsage=serverAuth,clientAuth\n`,
    );
    this.#openssl(['req', ...ec, '-subj', `/CN=${cn}`, '-keyout', `${name}.key`, '-out', `${name}.csr`]);
    this.#openssl([
      ...['x509', '-req', '-in', `${name}.csr`, '-CA', `${authority}.pem`, '-CAkey', `${authority}.key`],
      ...['-CAcreateserial', '-days', String(days), '-extfile', `${name}.ext`, '-out', `${name}.pem`],
    ]);
  }

  /** etcd's arguments for a server with the certificate `name` that lets in whom `authority` vouches for. */
  etcdArgs(name: string, authority: string): string[] {
    return [
      `--cert-file=${this.path(`${name}.pem`)}`,
      `--key-file=${this.path(`${name}.key`)}`,
      `--trusted-ca-file=${this.path(`${authority}.pem`)}`,
      '--client-cert-auth=true',
    ];
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  #openssl(args: readonly string[]): void {
    execFileSync('openssl', args, { cwd: this.folder, stdio: ['ignore', 'ignore', 'pipe'] });
  }
}
