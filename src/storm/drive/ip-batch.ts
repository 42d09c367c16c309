/** One `ip -batch` process for a whole storm: a process for each command would be a hundred times slower. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';

export class IpError extends Error {
  readonly code = 'IP_COMMAND';
}

export class IpBatch {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #ended: Promise<void>;
  #waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  #failure: IpError | null = null;
  #errors = '';
  #rest = '';

  constructor() {
    // Without -force it ends at the first command that fails.
    this.#child = spawn('ip', ['-oneline', '-batch', '-'], { stdio: 'pipe' });
    this.#child.stderr.on('data', (data: Buffer) => {
      this.#errors = (this.#errors + data.toString('utf8')).slice(-2000);
    });
    this.#child.stdout.on('data', (data: Buffer) => this.#answered(data.toString('latin1')));
    this.#child.stdin.on('error', () => undefined); // the exit says why
    this.#ended = new Promise((resolve) => {
      const ended = (why: string): void => {
        this.#failure ??= new IpError(`ip failed: ${this.#errors.trim() || why}`);
        for (const { reject } of this.#waiting) reject(this.#failure);
        this.#waiting = [];
        resolve();
      };
      this.#child.once('error', (error) => ended(error.message));
      this.#child.once('close', (code) => ended(`exit code ${code}`));
    });
  }

  /** Resolves when the kernel has carried all of them out. Commands print nothing: a question after them is answered last. */
  run(...commands: readonly string[]): Promise<void> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#child.stdin.write(`${commands.join('\n')}\nlink show dev lo\n`);
    });
  }

  async close(): Promise<void> {
    this.#child.stdin.end();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), 5_000);
    await this.#ended;
    clearTimeout(timer);
  }

  #answered(text: string): void {
    this.#rest += text;
    for (let end = this.#rest.indexOf('\n'); end >= 0; end = this.#rest.indexOf('\n')) {
      this.#rest = this.#rest.slice(end + 1);
      this.#waiting.shift()?.resolve();
    }
  }
}
