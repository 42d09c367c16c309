import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { Outbox } from '../../../src/etcd/outbox.js';

const settle = () => new Promise((resolve) => setImmediate(resolve));
const next = (port: MessagePort): Promise<unknown> => new Promise((resolve) => port.once('message', resolve));

describe('what one thread says to another', () => {
  it('goes together, in order, where one event brings it, also by way of promises', async () => {
    const { port1, port2 } = new MessageChannel();
    const outbox = new Outbox<number>(port1);
    const heard = next(port2);
    outbox.post(1);
    void Promise.resolve()
      .then(() => outbox.post(2))
      .then(() => outbox.post(3));
    assert.deepEqual(await heard, [1, 2, 3]);
    const later = next(port2);
    outbox.post(4);
    assert.deepEqual(await later, [4]);
    port1.close();
  });

  it('takes the buffers along that are handed over', async () => {
    const { port1, port2 } = new MessageChannel();
    const outbox = new Outbox<Uint8Array>(port1);
    const [one, other] = [Uint8Array.of(1, 2), Uint8Array.of(3)];
    const heard = next(port2);
    outbox.post(one, one.buffer);
    outbox.post(other);
    assert.deepEqual(await heard, [Uint8Array.of(1, 2), Uint8Array.of(3)]);
    assert.deepEqual([one.length, other.length], [0, 1]);
    port1.close();
  });

  it('is lost without a word where the other side is gone', async () => {
    const { port1 } = new MessageChannel();
    const outbox = new Outbox<Uint8Array>(port1);
    port1.close();
    await settle();
    const one = Uint8Array.of(1);
    outbox.post(one, one.buffer);
    await settle();
  });
});
