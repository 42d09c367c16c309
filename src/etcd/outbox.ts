/**
 * What one thread has to say to another, gathered for as long as a turn of the loop's callbacks lasts: answers of etcd come
 * in groups, and each message by itself wakes a sleeping thread.
 */
import type { MessagePort } from 'node:worker_threads';

export class Outbox<Message> {
  readonly #port: MessagePort;
  #messages: Message[] = [];
  #handedOver: ArrayBuffer[] = [];

  constructor(port: MessagePort) {
    this.#port = port;
  }

  /** It is copied at the end of the turn, but for these buffers, which are handed over. The other side gets an array. */
  post(message: Message, ...handedOver: ArrayBuffer[]): void {
    this.#messages.push(message);
    this.#handedOver.push(...handedOver);
    if (this.#messages.length > 1) return;
    // After the promises that the same event has settled.
    process.nextTick(() => {
      const messages = this.#messages;
      const buffers = this.#handedOver;
      this.#messages = [];
      this.#handedOver = [];
      this.#port.postMessage(messages, buffers);
    });
  }
}
