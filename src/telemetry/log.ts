/** The log: one JSON object a line, or a readable line on a terminal. */
import { createRequire } from 'node:module';
import { type DestinationStream, type Logger, pino } from 'pino';
import { escapeControls } from './escape.js';

export type Log = Logger;

export interface LogOptions {
  readonly level: string;
  readonly format: 'auto' | 'json' | 'pretty';
  /** File descriptor; stderr unless told otherwise, so that what a command prints stays clean. */
  readonly fd?: number;
}

/**
 * Lines are written at once, so that the last one before the process dies is not lost; a failure that repeats is
 * logged once (episode.ts). JSON escapes control characters; the readable form must too.
 */
export function openLog({ level, format, fd = 2 }: LogOptions): Log {
  const readable = format === 'pretty' || (format === 'auto' && fd === 2 && process.stderr.isTTY === true);
  return pino({ level, base: { pid: process.pid } }, readable ? prettyStream(fd) : jsonStream(fd));
}

/** What is logged while the log cannot be written is kept, up to this; then dropped. */
const keptBytesMax = 1024 * 1024;

function jsonStream(fd: number): DestinationStream {
  const stream = pino.destination({ dest: fd, sync: true, maxLength: keptBytesMax });
  // A log on a full disk, or one that nobody reads any more, is no reason to stop reporting; and where should it be
  // said? What is kept is written with the first line that can be.
  stream.on('error', () => undefined);
  return stream;
}

const require = createRequire(import.meta.url);

/** Not pino-pretty's stream: lines wait in it, and the last ones are lost when the process dies. */
function prettyStream(fd: number): DestinationStream {
  const stream = jsonStream(fd);
  // Thirty modules, which a daemon that writes JSON need not load.
  const { prettyFactory } = require('pino-pretty') as typeof import('pino-pretty');
  const prettify = prettyFactory({
    ignore: 'pid,hostname',
    translateTime: 'HH:MM:ss.l',
    colorize: fd === 2 && process.stderr.isTTY === true,
    messageFormat: (log, messageKey) => escapeControls(String(log[messageKey])),
  });
  return { write: (line) => stream.write(prettify(line)) };
}
