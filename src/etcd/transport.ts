/**
 * Carries ready-made transactions to etcd (encoding.ts). Every outcome is a value: what went wrong with a transaction
 * is for its lane to judge (reporter/).
 */
import type { TxnAnswer } from '../reporter/answers.js';
import { decodeAnswer } from './answer.js';
import { EtcdChannel } from './channel.js';
import { messageOf } from './classify.js';
import type { EtcdConnection } from './connection.js';

export class TxnTransport {
  readonly #channel: EtcdChannel;

  /** Reads the files of the connection; throws an EtcdConnectionError. */
  constructor(connection: EtcdConnection) {
    this.#channel = new EtcdChannel(connection);
  }

  /** One transaction, one try: an answer comes by the connection's deadline (twice that where a token is needed first). */
  async txn(request: Uint8Array): Promise<TxnAnswer> {
    const outcome = await this.#channel.call('/etcdserverpb.KV/Txn', request);
    if (outcome.kind === 'failed') return outcome.failure;
    try {
      return decodeAnswer(outcome.bytes);
    } catch (error) {
      // It may have been committed: whoever answers so, asking again tells.
      const message = `an answer that is none of etcd's: ${messageOf(error)}`;
      return { kind: 'unclear', reason: 'other', message };
    }
  }

  close(): void {
    this.#channel.close();
  }
}
