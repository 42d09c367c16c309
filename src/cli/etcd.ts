/** One-shot use of etcd by a command: a client for as long as it takes, and one error for all that can go wrong. */
import type { Etcd3 } from 'etcd3';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { classify, messageOf } from '../etcd/classify.js';
import { openEtcd } from '../etcd/client.js';
import type { EtcdConnection } from '../etcd/connection.js';

/** Throws a CommandError where etcd cannot be reached, or does not let us. */
export async function withEtcd<T>(
  connection: EtcdConnection,
  use: (client: Etcd3) => Promise<T>,
): Promise<T> {
  const client = openEtcd(connection);
  try {
    return await use(client);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const where = connection.endpoints.join(', ');
    switch (classify(error).kind) {
      case 'denied':
      case 'unauthenticated':
        throw new CommandError(
          ExitCode.denied,
          `etcd at ${where} refuses: ${messageOf(error)}. Check the user, its password and its role`,
          { cause: error },
        );
      default:
        throw new CommandError(
          ExitCode.unavailable,
          `etcd at ${where} cannot be used: ${messageOf(error)}. Name another one with --etcd`,
          { cause: error },
        );
    }
  } finally {
    client.close();
  }
}
