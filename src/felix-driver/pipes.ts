/** The two pipes with which Felix starts its dataplane driver (Calico's felix/dataplane/external/ext_dataplane.go). */
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';

export class FelixPipesError extends Error {
  readonly code = 'FELIX_PIPES';
}

export interface FelixPipes {
  /** fd 3: ToDataplane. */
  readonly fromFelix: Socket;
  /** fd 4: FromDataplane. */
  readonly toFelix: Socket;
}

/** Throws a FelixPipesError where they are not there. */
export function openFelixPipes(): FelixPipes {
  // Both before either is opened: the numbers of missing ones are taken by what is opened next. In a process without
  // them node's own epoll is the first to do so, which is no pipe.
  for (const fd of [3, 4]) assertPipe(fd);
  return {
    fromFelix: new Socket({ fd: 3, readable: true, writable: false }),
    toFelix: new Socket({ fd: 4, readable: false, writable: true }),
  };
}

function assertPipe(fd: number): void {
  let found = 'nothing is open there';
  try {
    const stat = fstatSync(fd);
    if (stat.isFIFO() || stat.isSocket()) return;
    found = 'what is open there is no pipe';
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBADF') throw error;
  }
  throw new FelixPipesError(
    `Felix's pipes are expected as file descriptors 3 and 4, but ${found} (${fd}). This command is for Felix to start: name it as DataplaneDriver`,
  );
}
