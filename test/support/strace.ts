/** Faults made with strace's injection, which works on node's file system threads too. */
import { spawn } from 'node:child_process';
import { until } from './waiting.js';

export interface Traced {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a node program with faults injected, such as `fdatasync:error=EIO:when=5`. Rejects where strace cannot be used
 * here: a fault test that cannot make its fault has not passed.
 */
export function runTraced(injections: readonly string[], args: readonly string[]): Promise<Traced> {
  const inject = injections.flatMap((one) => ['-e', `inject=${one}`]);
  const calls = injections.map((one) => one.slice(0, one.indexOf(':'))).join(',');
  const child = spawn(
    'strace',
    ['-f', '-qq', '-o', '/dev/null', '-e', `trace=${calls}`, ...inject, process.execPath, ...args],
    // strace counts `when` thread by thread: with one of them, that is all calls in their order.
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, UV_THREADPOOL_SIZE: '1' } },
  );
  return new Promise((resolve, reject) => {
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data: Buffer) => {
      stdout += data.toString();
    });
    child.stderr.on('data', (data: Buffer) => {
      stderr += data.toString();
    });
    child.on('error', (cause) =>
      reject(
        new Error('this test needs strace (apt-get install strace), and it cannot be started', { cause }),
      ),
    );
    child.on('close', (code, signal) => {
      if (/ptrace|PTRACE/.test(stderr))
        reject(
          new Error(
            `this test needs strace to be allowed to trace (ptrace; root, or CAP_SYS_PTRACE): ${stderr}`,
          ),
        );
      else resolve({ code, signal, stdout, stderr });
    });
  });
}

/** Injects a fault into a process that runs, from now on; returns how to end that. */
export async function traceRunning(pid: number, injection: string): Promise<() => Promise<void>> {
  const call = injection.slice(0, injection.indexOf(':'));
  const args = [
    '-f',
    '-p',
    String(pid),
    '-o',
    '/dev/null',
    '-e',
    `trace=${call}`,
    '-e',
    `inject=${injection}`,
  ];
  const child = spawn('strace', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said += data.toString();
  });
  child.on('error', (error) => {
    said += `not permitted: ${error.message}`;
  });
  await until('strace to have attached', () => {
    if (/not permitted/.test(said)) throw new Error(`this test needs strace, allowed to trace: ${said}`);
    return said.includes('attached');
  });
  return async () => {
    child.kill('SIGTERM');
    await ended;
  };
}
