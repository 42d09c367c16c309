/**
 * Follows keys without a gap and without a repeat, across lost connections and restarts of etcd.
 *
 * Not etcd3's watcher: when it connects again it goes on from the revision that etcd has by then, and what happened
 * between its last event and that moment is lost if the connection breaks once more before it has come.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs, laneBackoff } from '../reporter/backoff.js';
import { bytesField, varintField } from '../wire/protobuf.js';
import { EtcdChannel } from './channel.js';
import { classify, type Failure } from './classify.js';
import { deadlineMsDefault, type EtcdConnection } from './connection.js';
import { prefixEnd } from './prefix.js';
import { type EtcdStream, openStream } from './stream.js';
import { decodeWatchResponse, type WatchEvent, type WatchResponse } from './watch-response.js';

export type { WatchEvent } from './watch-response.js';

export interface WatchOptions {
  /** The first revision to be told of; 0: from now on. */
  readonly fromRevision: number;
  /** The events of one answer, in order, and etcd's revision when it was sent. All of one revision come together. */
  readonly onEvents: (events: readonly WatchEvent[], revision: number) => void;
  /**
   * The watch has ended, since it could not go on without a gap: history up to this revision is compacted away, or
   * etcd was set back to it. What happened must be learned from a list.
   */
  readonly onCompacted: (revision: number) => void;
  /** Watching, from now on. */
  readonly onConnected?: () => void;
  /** Not watching at present; it goes on trying. */
  readonly onFailure?: (failure: Failure) => void;
  readonly signal: AbortSignal;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
  /** Between two tries, in milliseconds. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>;
}

type Ended =
  | { readonly kind: 'compacted'; readonly revision: number }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** The connection to use when it (re)connects: one for ever, or the one of the moment. */
export type Reachable = EtcdConnection | (() => EtcdConnection);

/** Ends when it is told to by the signal, or after onCompacted. Rejects only with what a callback throws. */
export function watchPrefix(connection: Reachable, prefix: string, options: WatchOptions): Promise<void> {
  const key = Buffer.from(prefix);
  return watch(connection, Buffer.concat([bytesField(1, key), bytesField(2, prefixEnd(key))]), options);
}

/** The same for a single key. */
export function watchKey(connection: Reachable, key: string, options: WatchOptions): Promise<void> {
  return watch(connection, Buffer.from(bytesField(1, key)), options);
}

async function watch(reachable: Reachable, range: Buffer, options: WatchOptions): Promise<void> {
  const { signal, random = Math.random, pause = pauseFor } = options;
  const position = { next: options.fromRevision };
  let failures = 0;
  const onConnected = () => {
    failures = 0;
    options.onConnected?.();
  };
  while (!signal.aborted) {
    const connection = typeof reachable === 'function' ? reachable() : reachable;
    const ended = await follow(connection, range, position, { ...options, onConnected });
    if (signal.aborted) return;
    if (ended.kind === 'compacted') {
      options.onCompacted(ended.revision);
      return;
    }
    options.onFailure?.(ended.failure);
    // As with transactions: all hosts of an etcd lose it in one moment, and must not come back in one.
    await pause(backoffMs(++failures, laneBackoff, random()), signal);
  }
}

async function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined); // an abort is the loop's to see
}

/** One connection's life. Each is opened anew, with another endpoint, another token and the files as they are now. */
async function follow(
  connection: EtcdConnection,
  range: Buffer,
  position: { next: number },
  options: WatchOptions,
): Promise<Ended> {
  let channel: EtcdChannel;
  try {
    channel = new EtcdChannel(connection);
  } catch (error) {
    return { kind: 'failed', failure: classify(error) };
  }
  const way = await channel.way();
  channel.close(); // what it may have needed to get a token
  if ('kind' in way) return { kind: 'failed', failure: way };
  const { stream, close } = openStream(way, '/etcdserverpb.Watch/Watch');
  try {
    // WatchRequest: create_request 1. WatchCreateRequest: key 1, range_end 2, start_revision 3.
    const start = position.next > 0 ? varintField(3, position.next) : '';
    stream.write(bytesField(1, range, start));
    return await read(stream, connection.deadlineMs ?? deadlineMsDefault, position, options);
  } finally {
    close();
  }
}

function read(
  stream: EtcdStream,
  deadlineMs: number,
  position: { next: number },
  { signal, onConnected, onEvents }: WatchOptions,
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const finish = (ended: Ended) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      resolve(ended);
      stream.cancel();
    };
    const fail = (error: unknown) => finish({ kind: 'failed', failure: classify(error) });
    const onAbort = () => fail(new Error('told to end'));
    const timer = setTimeout(
      () => fail(new Error(`4 DEADLINE_EXCEEDED: etcd has not opened the watch within ${deadlineMs} ms`)),
      deadlineMs,
    );
    signal.addEventListener('abort', onAbort, { once: true });
    stream.on('error', fail);
    stream.on('end', () => fail(new Error('14 UNAVAILABLE: etcd has ended the watch')));
    stream.on('data', (bytes: Buffer) => {
      if (signal.aborted) return;
      let response: WatchResponse;
      try {
        response = decodeWatchResponse(bytes);
      } catch (error) {
        fail(error);
        return;
      }
      if (response.created) clearTimeout(timer);
      const ended = judge(response, position);
      if (ended !== null) {
        finish(ended);
        return;
      }
      try {
        if (response.created) onConnected?.();
        // etcd 3.4 before 3.4.24 may repeat events.
        const events = response.events.filter((event) => event.revision >= position.next);
        const last = events.at(-1);
        if (last === undefined) return;
        position.next = last.revision + 1;
        onEvents(events, response.revision);
      } catch (error) {
        reject(error);
        fail(error);
      }
    });
  });
}

/** Whether the watch ends with this answer, and why. */
function judge(response: WatchResponse, position: { next: number }): Ended | null {
  const { created, canceled, compactRevision, cancelReason, revision } = response;
  if (compactRevision > 0) return { kind: 'compacted', revision: compactRevision };
  if (canceled)
    return { kind: 'failed', failure: classify(new Error(`etcd has cancelled the watch: ${cancelReason}`)) };
  if (created && position.next === 0) position.next = revision + 1;
  // It would wait for a revision that means something else by then.
  if (created && revision + 1 < position.next) return { kind: 'compacted', revision };
  return null;
}
