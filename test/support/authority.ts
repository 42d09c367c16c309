/** Certificate authorities for tests, by openssl: keys and certificates are PEM files in one folder. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

export class Authority {
  readonly #folder: string;
  readonly #name: string;

  constructor(folder: string, name: string) {
    this.#folder = folder;
    this.#name = name;
    const subject = ['-subj', `/CN=${name}`];
    const files = ['-keyout', `${name}.key`, '-out', `${name}.pem`];
    this.#openssl('req', '-x509', ...newKey, '-days', '60', ...subject, ...files);
  }

  /** Its own certificate's file. */
  get file(): string {
    return join(this.#folder, `${this.#name}.pem`);
  }

  /** For servers and clients; `days` below 0: it has expired. Its common name is `name`. */
  issue(name: string, { days = 30, names = 'IP:127.0.0.1' } = {}): Certificate {
    writeFileSync(
      join(this.#folder, `${name}.ext`),
      `subjectAltName=${names}\nextendedKeyUsage=serverAuth,clientAuth\n`,
    );
    this.#openssl('req', ...newKey, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`);
    const issuer = ['-CA', `${this.#name}.pem`, '-CAkey', `${this.#name}.key`, '-CAcreateserial'];
    const files = ['-in', `${name}.csr`, '-extfile', `${name}.ext`, '-out', `${name}.pem`];
    this.#openssl('x509', '-req', ...issuer, '-days', String(days), ...files);
    return { cert: join(this.#folder, `${name}.pem`), key: join(this.#folder, `${name}.key`) };
  }

  #openssl(...args: string[]): void {
    execFileSync('openssl', args, { cwd: this.#folder, stdio: 'ignore' });
  }
}
