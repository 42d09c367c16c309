import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { describe, it, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { frame } from '../../../src/sources/felix/frames.js';
import { bytesField } from '../../../src/wire/protobuf.js';
import { until } from '../../support/waiting.js';
import { felix as messages } from './driver-feed-fixture.js';
import { allOf, Felix, fakeDriver } from './felix.js';

const mebi = 1024 * 1024;

function relay(test: TestContext, mode = 'relay'): Felix {
  const felix = new Felix({ driver: fakeDriver(mode) });
  test.after(() => felix.close());
  return felix;
}

/** Not a power of two long, so that no loss of whole buffers looks like none. */
const noise = randomBytes(mebi + 7);

/** Frames of all sizes, the first of them of half the stream, with that many bytes together. */
function* stream(bytes: number): Generator<Buffer> {
  const small = [messages.inSync, messages.defines(1), messages.removes(1), Buffer.alloc(0)];
  let left = bytes;
  let at = 0;
  for (let i = 0; left > 0; i++) {
    const size = i === 0 ? Math.floor(bytes / 2) : 1 + ((i * 7919 * 101) % (3 * mebi));
    const header = Buffer.alloc(8 + 5);
    header.writeUIntLE(size + 5, 0, 6);
    header.set([(2 << 3) | 2, 0x80, 0x80, 0x80, 0x01], 8); // an IP set
    const pieces = [frame(small[i % small.length]!), header];
    for (let rest = size; rest > 0; rest -= pieces.at(-1)!.length) {
      const length = Math.min(rest, noise.length - at, 256 * 1024);
      pieces.push(noise.subarray(at, at + length));
      at = (at + length) % noise.length;
    }
    for (const piece of pieces) {
      const cut = piece.subarray(0, left);
      left -= cut.length;
      if (cut.length > 0) yield cut;
    }
  }
}

async function write(to: Writable, bytes: number): Promise<void> {
  for (const piece of stream(bytes)) if (!to.write(piece)) await once(to, 'drain');
  to.end();
}

/** Returns how many bytes came, all of them the expected ones. */
async function compare(from: Readable, bytes: number): Promise<number> {
  const expected = stream(bytes);
  let piece = Buffer.alloc(0);
  let read = 0;
  for await (const chunk of from as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length; ) {
      if (piece.length === 0) {
        const next = expected.next();
        assert.ok(next.done !== true, `more than ${bytes} bytes`);
        piece = next.value as Buffer<ArrayBuffer>;
      }
      const length = Math.min(piece.length, chunk.length - at);
      const same = piece.compare(chunk, at, at + length, 0, length) === 0;
      assert.ok(same, `another byte between ${read} and ${read + length}`);
      piece = piece.subarray(length);
      at += length;
      read += length;
    }
  }
  return read;
}

describe('what passes through flapd felix-driver', { timeout: 120_000 }, () => {
  it('is the same, a gigabyte in both directions at once, and none of it is kept', async (test) => {
    const felix = relay(test);
    const warmUp = 64 * mebi;
    const bytes = 1024 * mebi;
    const all = Promise.all([
      write(felix.toDriver, bytes),
      write(felix.dataplaneSays, bytes),
      compare(felix.dataplaneHears, bytes),
      compare(felix.fromDriver, bytes),
    ]);
    await until('the first of it', () => felix.fromDriver.bytesRead > warmUp, { deadlineMs: 60_000 });
    const early = felix.peakMiB;
    let late = early;
    const watching = setInterval(() => {
      if (felix.driverPid !== null && felix.child.exitCode === null) late = felix.peakMiB;
    }, 20);
    const [, , down, back] = await all;
    clearInterval(watching);
    assert.deepEqual([down, back], [bytes, bytes]);
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
    test.diagnostic(`peak memory ${early.toFixed(0)} MiB after 64 MiB, ${late.toFixed(0)} MiB after all`);
    assert.ok(late < early + 32, `the peak of its memory grew from ${early} to ${late} MiB`);
    assert.match(felix.stderr, /"lost":0/);
  });

  it('waits for a reader that is slow: the writer is held back', async (test) => {
    const felix = relay(test);
    const bytes = 64 * mebi;
    felix.dataplaneHears.pause();
    await until('the driver', () => felix.driverPid);
    const writing = write(felix.toDriver, bytes);
    // It is held back once its figure stands still for a while.
    let taken = -1;
    await until(
      'the writer to be held back',
      async () => {
        const before = taken;
        taken = felix.toDriver.bytesWritten - felix.toDriver.writableLength;
        await sleep(100);
        return taken > 0 && taken === before;
      },
      { deadlineMs: 30_000 },
    );
    assert.ok(taken < 8 * mebi, `${taken} bytes were taken`);
    assert.equal(await compare(felix.dataplaneHears, bytes), bytes);
    await writing;
  });

  it('ends in one direction alone, where the writer ends alone', async (test) => {
    const felix = relay(test);
    felix.toDriver.end('from Felix');
    assert.equal(await allOf(felix.dataplaneHears), 'from Felix');
    felix.dataplaneSays.write('still ');
    await until('the other direction', () => felix.fromDriver.bytesRead === 6 || felix.fromDriver.read(0));
    felix.dataplaneSays.end('there');
    assert.equal(await allOf(felix.fromDriver), 'still there');
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
  });

  it('ends towards Felix alone, where the driver closes its end', async (test) => {
    const felix = relay(test);
    felix.dataplaneSays.end('good-bye');
    assert.equal(await allOf(felix.fromDriver), 'good-bye');
    felix.toDriver.end('still here');
    assert.equal(await allOf(felix.dataplaneHears), 'still here');
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
  });

  it('finds nobody there where Felix has closed its end: the driver is told so as by a pipe', async (test) => {
    const felix = relay(test);
    await until('the driver', () => felix.driverPid);
    felix.fromDriver.destroy();
    await once(felix.fromDriver, 'close');
    const telling = setInterval(() => felix.dataplaneSays.write('anybody there?'), 10);
    await until('the driver to notice', () => felix.stderr.includes('fake driver: EPIPE'));
    clearInterval(telling);
    felix.toDriver.end();
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
  });

  it('finds nobody there where the driver has closed its end: Felix is told so as by a pipe', async (test) => {
    const felix = relay(test, 'deaf');
    await until('the driver', () => felix.driverPid);
    const telling = setInterval(() => felix.toDriver.write('anybody there?'), 10);
    await until('Felix to notice', () => felix.errors.includes('EPIPE'));
    clearInterval(telling);
    felix.dataplaneSays.end('I am');
    assert.equal(await allOf(felix.fromDriver), 'I am');
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
  });

  it('passes as it is where it is not framed at all, which is said', async (test) => {
    const felix = relay(test);
    const garbage = Buffer.concat([frame(messages.defines(1)), Buffer.alloc(100_000, 0xfe)]).toString(
      'latin1',
    );
    felix.toDriver.end(garbage, 'latin1');
    felix.dataplaneSays.end(garbage, 'latin1');
    const [down, back] = await Promise.all([allOf(felix.dataplaneHears), allOf(felix.fromDriver)]);
    assert.ok(down === garbage && back === garbage);
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
    assert.equal(felix.stderr.match(/not framed as Felix does it/g)?.length, 2);
    assert.match(felix.stderr, /"lost":2/);
  });

  it('passes as it is where its messages make no sense or are too long to be looked at, which is said once', async (test) => {
    const felix = relay(test);
    const nonsense = frame(bytesField(11, Buffer.alloc(20, 0xff)));
    const long = frame(bytesField(11, Buffer.alloc(100_000)));
    const sent = Buffer.concat([nonsense, long, nonsense, long, frame(messages.inSync)]).toString('latin1');
    felix.toDriver.end(sent, 'latin1');
    felix.dataplaneSays.end();
    assert.ok((await allOf(felix.dataplaneHears)) === sent);
    await felix.ended;
    assert.equal(felix.stderr.match(/makes no sense/g)?.length, 1);
    assert.equal(felix.stderr.match(/is longer than/g)?.length, 1);
    assert.match(felix.stderr, /"taken":1,"invalid":2,"tooLong":2,"lost":0/);
  });

  it('is whole where the driver has ended before Felix has read it', async (test) => {
    const felix = relay(test);
    const bytes = 250 * 1024;
    felix.fromDriver.pause();
    felix.toDriver.end();
    const pid = await until('the driver', () => felix.driverPid);
    await write(felix.dataplaneSays, bytes);
    await until('the driver to end', () => !existsSync(`/proc/${pid}`));
    assert.ok(felix.fromDriver.bytesRead < bytes, 'it is all read before the driver has ended');
    assert.equal(await compare(felix.fromDriver, bytes), bytes);
    assert.deepEqual(await felix.ended, { code: 0, signal: null });
  });
});
