/** Feeders that misbehave, beside one that does not, in the running daemon (faults 30 and 31). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { Course } from '../support/course.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { statusFrame, vm } from '../support/host.js';
import { until } from '../support/waiting.js';

const { up, down } = Status;
const mebi = 2 ** 20;

describe('a feeder that misbehaves', () => {
  let etcd: Etcd;
  let folder: string;
  let course: Course;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    etcd = await startEtcd();
    folder = mkdtempSync(join(tmpdir(), 'flapd-test-'));
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await Course.closeAll();
    await etcd.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const start = async (...args: string[]): Promise<void> => {
    course = await Course.start(etcd.endpoint, { args: [`--journal=${join(folder, 'journal')}`, ...args] });
  };
  /** It hears nothing unless somebody listens. */
  const open = (): Promise<Socket> =>
    until('a connection', async () => {
      const socket = connect(course.flapd.feedSocket);
      try {
        await once(socket, 'connect');
      } catch (error) {
        // flapd has not taken those that came before yet: its queue is full.
        assert.equal((error as NodeJS.ErrnoException).code, 'EAGAIN');
        return null;
      }
      socket.on('error', () => undefined); // flapd may close it
      sockets.push(socket);
      return socket;
    });
  const rss = (): number =>
    Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${course.flapd.pid}/status`, 'utf8'))![1]) * 1024;
  const pending = (): Promise<number> => course.flapd.metric('flapd_pending_transitions');

  it('and never reads its acknowledgements is heard all the same, and so is the other one', async () => {
    await start();
    const socket = await open();
    socket.pause();
    const frames = 200_000;
    const before = rss();
    await course.during(async () => {
      // Of one endpoint that has its status already: acknowledged each, and nothing else.
      for (let i = 1; i <= frames; i++) {
        if (!socket.write(statusFrame(vm('mute'), up, i))) await once(socket, 'drain');
      }
      await until(
        'all frames to be read',
        async () =>
          (await course.flapd.metric('flapd_transitions_ignored_total{reason="unchanged"}')) >= frames - 1,
      );
    });
    assert.ok(rss() - before < 100 * mebi, `${(rss() - before) / mebi} MiB more`);
    await course.end();
  });

  it('and sends one byte a second is closed, and the other one goes on', async () => {
    await start('--set=feed.frameTimeout=2s');
    const socket = await open();
    const frame = statusFrame(vm('slow'), up, 1);
    let sent = 0;
    const timer = setInterval(() => socket.write(frame.subarray(sent, ++sent)), 1000);
    try {
      socket.write(frame.subarray(sent, ++sent));
      await course.during(async () => {
        // Not events' once(): it rejects where a byte that flapd has not read makes the kernel reset the connection.
        await new Promise((resolve) => socket.once('close', resolve));
      });
    } finally {
      clearInterval(timer);
    }
    assert.ok(sent < frame.length);
    assert.equal(await course.flapd.metric('flapd_feed_frames_total{source="felix",result="timeout"}'), 1);
    await course.end();
  });

  it('and opens a thousand connections that say nothing does not disturb one that talks', async () => {
    await start();
    await course.during(async () => {
      for (let i = 0; i < 1000; i++) (await open()).resume(); // resumed, it hears that it was closed
    });
    // Sixteen is the standard, and one of them is the course's own.
    await until(
      'all but fifteen to be closed',
      () => sockets.filter(({ destroyed }) => !destroyed).length <= 15,
    );
    await course.end();
  });

  it('and is faster than the journal has to wait, and costs no memory', async () => {
    await start();
    const socket = await open();
    socket.resume(); // it reads its acknowledgements
    const chunk = (first: number): Buffer =>
      Buffer.concat(
        Array.from({ length: 1000 }, (_, i) =>
          statusFrame(vm(`blast${i}`), (first / 1000) % 2 === 0 ? up : down, first + i + 1),
        ),
      );
    const frames = 400_000;
    const before = rss();
    let waits = 0;
    let most = 0;
    for (let first = 0; first < frames; first += 1000) {
      if (!socket.write(chunk(first))) {
        waits++;
        await once(socket, 'drain');
      }
      if (first % 50_000 === 0) most = Math.max(most, rss());
    }
    assert.ok(waits > 0, 'it never had to wait'); // how often is the kernel's buffer's and the machine's to say
    await course.flap(2);
    await until('all to be written', async () => (await pending()) === 0, {
      deadlineMs: 120_000,
      everyMs: 200,
    });
    most = Math.max(most, rss());
    // Pending transitions may cost 100 bytes each; what lies in buffers besides is bounded, whatever is sent.
    const allowed = frames * 100 + 100 * mebi;
    assert.ok(most - before < allowed, `${(most - before) / mebi} MiB more`);
    await course.end();
  });
});
