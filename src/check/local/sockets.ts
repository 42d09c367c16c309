/** The Unix sockets that flapd serves: whether it could make each of them. */
import { lstatSync } from 'node:fs';
import { createConnection } from 'node:net';
import { dirname } from 'node:path';
import { findGroup } from '../../sources/felix/socket-file.js';
import { type Finding, fine, found } from '../finding.js';
import { shellWord } from '../shell.js';
import { directoryState } from './paths.js';

export interface SocketWanted {
  readonly setting: string;
  readonly path: string;
}

/** `running`: a flapd runs here, so that a socket which is served is its. */
export async function checkSockets(
  wanted: readonly SocketWanted[],
  group: string | null,
  running: boolean,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const socket of wanted) findings.push(...(await checkSocket(socket, running)));
  if (group !== null) {
    try {
      findGroup(group);
    } catch (error) {
      findings.push(
        found(
          'socket-group',
          (error as Error).message,
          `groupadd --system ${shellWord(group)}, or another one in feed.group`,
        ),
      );
    }
  }
  if (findings.length === 0 && wanted.length > 0)
    findings.push(fine('sockets', `${wanted.map(({ path }) => path).join(', ')} can be served`));
  return findings;
}

async function checkSocket({ setting, path }: SocketWanted, running: boolean): Promise<Finding[]> {
  const directory = dirname(path);
  const state = directoryState(directory);
  if (state.kind === 'unusable')
    return [
      found(
        'socket-directory',
        `${path} (${setting}) cannot be made: ${state.why}`,
        `as root: install -d -m 0750 -o FLAPDS-USER ${shellWord(directory)} (systemd: RuntimeDirectory=flapd), or another path in ${setting}`,
      ),
    ];
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return [];
  const elsewhere = `or another path in ${setting}`;
  if (!stat.isSocket())
    return [
      found('socket-taken', `${path} (${setting}) is there and is no socket`, `move it away, ${elsewhere}`),
    ];
  if (running || !(await isServed(path))) return [];
  return [
    found(
      'socket-taken',
      `another process listens on ${path} (${setting})`,
      `find out which: ss -xlp src ${shellWord(path)}; end it, ${elsewhere}`,
    ),
  ];
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createConnection(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve(true);
    });
    // Refused: what is left of a process that is gone. Anything else is alive, or not ours to ask.
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'ECONNREFUSED'));
  });
}
