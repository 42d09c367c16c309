/** A socket's file: who may connect, and who has it already. */
import { chmodSync, chownSync, lstatSync, mkdirSync, readFileSync, unlinkSync } from 'node:fs';
import { createConnection, type Server } from 'node:net';
import { dirname } from 'node:path';

export class FeedSocketError extends Error {
  readonly code = 'FEED_SOCKET';
}

/** For messages: what the socket is, and what chooses another path or switches it off when PATH is a path or `off`. */
export interface SocketPurpose {
  readonly name: string;
  readonly option: string;
}

/**
 * Lets the server listen on a socket that only root and the group (a name or a number; null: the process's own) can
 * connect to. A socket of a process that is gone is replaced. Rejects with a FeedSocketError, the server closed.
 */
export async function listenOn(
  server: Server,
  path: string,
  group: string | null,
  purpose: SocketPurpose,
): Promise<void> {
  try {
    const groupId = group === null ? null : findGroup(group);
    mkdirSync(dirname(path), { recursive: true, mode: 0o750 });
    await removeStale(path, purpose);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(path, () => {
        server.off('error', reject);
        resolve();
      });
    });
    chmodSync(path, 0o660);
    if (groupId !== null) chownSync(path, -1, groupId);
  } catch (cause) {
    server.close();
    if (cause instanceof FeedSocketError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new FeedSocketError(
      `cannot open the ${purpose.name} ${path}: ${why}. Choose another path (${purpose.option}PATH) or switch it off (${purpose.option}off)`,
      { cause },
    );
  }
}

/** Only a refused connection says that nobody listens: a process too busy to accept, or not ours to ask, is alive. */
async function removeStale(path: string, { option }: SocketPurpose): Promise<void> {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isSocket())
    throw new FeedSocketError(`${path} exists and is no socket: it is left as it is. Choose another path`);
  const answer = await new Promise<string>((resolve) => {
    const probe = createConnection(path);
    probe.once('connect', () => {
      probe.destroy();
      resolve('connected');
    });
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  });
  if (answer === 'ENOENT') return;
  if (answer === 'ECONNREFUSED') {
    unlinkSync(path);
    return;
  }
  throw new FeedSocketError(
    answer === 'connected' || answer === 'EAGAIN'
      ? `another process listens on ${path}. Stop it, or choose another path (${option}PATH)`
      : `cannot tell whether a process listens on ${path} (${answer}): it is left as it is. Choose another path`,
  );
}

/** A group's number, by its name or as it is. Throws a FeedSocketError where there is no such group. */
export function findGroup(group: string): number {
  if (/^\d+$/.test(group)) return Number(group);
  for (const line of readFileSync('/etc/group', 'utf8').split('\n')) {
    const [name, , id] = line.split(':');
    if (name === group && id !== undefined) return Number(id);
  }
  throw new FeedSocketError(`there is no group ${group} on this machine`);
}
