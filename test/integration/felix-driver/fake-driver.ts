/**
 * A dataplane driver, to be started by felix-driver: whoever holds its stdin and stdout is the dataplane.
 *
 *     relay            fd 3 to stdout, stdin to fd 4, each until its end; exit code 0
 *     deaf             closes fd 3 at once, then as relay
 *     exit CODE        says so on fd 4, then ends
 *     die SIGNAL       the same
 *     signals          writes each signal's name to fd 4; ends with SIGTERM, exit code 7
 *     environment      writes its arguments, environment and stdin to fd 4
 */
import { closeSync, readFileSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';

const [mode, argument = ''] = process.argv.slice(2);

async function relay(deaf: boolean): Promise<void> {
  const output = new Socket({ fd: 4, readable: false, writable: true });
  const ways = [pipeline(process.stdin, output)];
  if (deaf) closeSync(3);
  else ways.push(pipeline(new Socket({ fd: 3, readable: true, writable: false }), process.stdout));
  const noting = ways.map((way) =>
    way.catch((error: NodeJS.ErrnoException) => process.stderr.write(`fake driver: ${error.code}\n`)),
  );
  await Promise.all(noting);
  process.exit(0);
}

function endWithFelix(): void {
  new Socket({ fd: 3, readable: true, writable: false }).on('end', () => process.exit(98)).resume();
}

switch (mode) {
  case 'relay':
  case 'deaf':
    await relay(mode === 'deaf');
    break;
  case 'exit':
    writeSync(4, 'last words');
    process.exit(Number(argument));
    break;
  case 'die':
    writeSync(4, 'last words');
    if (argument !== 'SIGKILL') process.on(argument, () => undefined).removeAllListeners(argument); // node's own handler
    process.kill(process.pid, argument);
    endWithFelix();
    break;
  case 'signals': {
    const names = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGQUIT', 'SIGWINCH'] as const;
    for (const name of names)
      process.on(name, () => {
        writeSync(4, `${name}\n`);
        if (name === 'SIGTERM') process.exit(7);
      });
    writeSync(4, 'ready\n');
    endWithFelix();
    break;
  }
  case 'environment':
    writeSync(
      4,
      JSON.stringify({
        args: process.argv.slice(3),
        marker: process.env.FAKE_MARKER,
        stdin: readFileSync(0, 'utf8'),
      }),
    );
    break;
  default:
    process.exit(99);
}
