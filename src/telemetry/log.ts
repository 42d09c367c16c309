/** The log: one JSON object a line, or a readable line on a terminal. */
import { type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

export type Log = Logger;

export interface LogOptions {
  readonly level: string;
  readonly format: 'auto' | 'json' | 'pretty';
}

/** Writes to stderr, so that what a command prints stays clean. JSON escapes control characters; the pretty form must too. */
export function openLog({ level, format }: LogOptions): Log {
  const readable = format === 'pretty' || (format === 'auto' && process.stderr.isTTY === true);
  const options = { level, base: { pid: process.pid } };
  if (!readable) return pino(options, pino.destination({ dest: 2, sync: true }));
  const stream = pretty({
    destination: 2,
    sync: true,
    ignore: 'pid,hostname',
    translateTime: 'HH:MM:ss.l',
    messageFormat: (log, messageKey) => escapeControls(String(log[messageKey])),
  });
  return pino(options, stream);
}

function escapeControls(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach the terminal
    /[\u0000-\u001f\u007f]/g,
    (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}
