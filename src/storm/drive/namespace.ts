/**
 * A netlink storm makes interfaces by the hundred: it runs, with etcd and flapd, in a network namespace of its own.
 * The loopback is each namespace's own too, hence everything has to be inside: the storm starts itself again there.
 * The namespace ends with the last process in it: nothing is left behind, however the storm ends.
 */
import { spawn } from 'node:child_process';

const mark = 'IN_FLAPD_STORM_NAMESPACE';

export class NamespaceError extends Error {
  readonly code: 'NAMESPACE_DENIED' | 'NAMESPACE_FAILED';

  constructor(code: NamespaceError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NamespaceError';
    this.code = code;
  }
}

export function inOwnNamespace(): boolean {
  return process.env[mark] === '1';
}

/** /sys shows the interfaces of the namespace that it was mounted in; without it only the cross-check is missing. */
const script = 'ip link set dev lo up && { mount -t sysfs sysfs /sys 2>/dev/null || true; } && exec "$@"';

/**
 * Runs this very command again in a new namespace and returns its exit code. SIGINT and SIGTERM are passed on.
 * Throws a NamespaceError where there is no right or no means to make one.
 */
export async function runInOwnNamespace(): Promise<number> {
  if (process.getuid?.() !== 0) {
    throw new NamespaceError(
      'NAMESPACE_DENIED',
      'a netlink storm makes network interfaces in a namespace of its own, which takes root: run it with sudo, or use --via feed',
    );
  }
  const command = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn('unshare', ['--net', '--mount', '--', 'sh', '-c', script, 'sh', ...command], {
    stdio: 'inherit',
    env: { ...process.env, [mark]: '1' },
  });
  const pass = (signal: NodeJS.Signals): void => {
    child.kill(signal);
  };
  process.on('SIGINT', pass);
  process.on('SIGTERM', pass);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', (cause) =>
        reject(
          new NamespaceError(
            'NAMESPACE_FAILED',
            `cannot make a network namespace: ${cause.message}. It takes unshare (util-linux) and ip (iproute2)`,
            { cause },
          ),
        ),
      );
      child.once('exit', (code, signal) => resolve(code ?? (signal === 'SIGINT' ? 130 : 71)));
    });
  } finally {
    process.off('SIGINT', pass);
    process.off('SIGTERM', pass);
  }
}
