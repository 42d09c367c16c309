/**
 * The kinds of value that settings have. Every value comes as text, from wherever it comes (YAML too is read as text,
 * so that the host name 007 stays what it is); only lists keep their form. A kind's description says what is allowed:
 * errors and the reference show it.
 */
import { z } from 'zod';

/** Says why it is not what is allowed, where that helps. */
type Refuse = (why: string) => undefined;

function kind<T>(
  allowed: string,
  parse: (text: string, refuse: Refuse) => T | undefined,
  unit?: 'duration' | 'size',
): z.ZodType<T> {
  return z
    .string({ error: allowed })
    .transform((value, context) => {
      let why = '';
      const parsed = parse(value.trim(), (reason) => {
        why = ` (${reason})`;
        return undefined;
      });
      if (parsed !== undefined) return parsed;
      context.addIssue(allowed + why);
      return z.NEVER;
    })
    .meta({ description: allowed, ...(unit === undefined ? {} : { unit }) });
}

const durationFactors = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;
const sizeFactors = { b: 1, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30 } as const;

/** Milliseconds, written as `500ms`, `10s`, `5m`, `1h`, or a bare number of seconds. */
export function duration(minMs: number, maxMs: number): z.ZodType<number> {
  return kind(
    `a duration such as 500ms, 10s or 5m (a bare number is seconds) from ${durationText(minMs)} to ${durationText(maxMs)}`,
    (text) => {
      const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h)?$/.exec(text);
      if (match === null) return undefined;
      const ms = Number(match[1]) * durationFactors[(match[2] ?? 's') as keyof typeof durationFactors];
      return within(ms, minMs, maxMs);
    },
    'duration',
  );
}

export function durationText(ms: number): string {
  if (ms % 3_600_000 === 0 && ms > 0) return `${ms / 3_600_000}h`;
  if (ms % 60_000 === 0 && ms > 0) return `${ms / 60_000}m`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

/** Bytes, written as a number or with KiB, MiB, GiB. */
export function size(min: number, max: number): z.ZodType<number> {
  return kind(
    `a size such as 512KiB, 64MiB or 1GiB from ${sizeText(min)} to ${sizeText(max)}`,
    (text) => {
      const match = /^(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB)?$/i.exec(text);
      if (match === null) return undefined;
      const factor = sizeFactors[(match[2] ?? 'B').toLowerCase() as keyof typeof sizeFactors];
      return within(Math.round(Number(match[1]) * factor), min, max);
    },
    'size',
  );
}

export function sizeText(bytes: number): string {
  for (const [unit, factor] of [
    ['GiB', 2 ** 30],
    ['MiB', 2 ** 20],
    ['KiB', 2 ** 10],
  ] as const) {
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`;
  }
  return `${bytes}`;
}

export function whole(min: number, max: number): z.ZodType<number> {
  return kind(`a whole number from ${min} to ${max}`, (text) =>
    /^-?\d+$/.test(text) ? within(Number(text), min, max) : undefined,
  );
}

function within(value: number, min: number, max: number): number | undefined {
  return value >= min && value <= max ? value : undefined;
}

export const flag = kind('true or false', (text) => {
  if (/^(true|yes|on|1)$/i.test(text)) return true;
  return /^(false|no|off|0)$/i.test(text) ? false : undefined;
});

export function oneOf<const T extends string>(...allowed: T[]): z.ZodType<T> {
  return kind(`one of ${allowed.join(', ')}`, (text) => allowed.find((one) => one === text));
}

/** Text that `problem` finds nothing wrong with. */
export function named(what: string, problem: (text: string) => string | null): z.ZodType<string> {
  return kind(what, (text, refuse) => {
    const wrong = problem(text);
    return wrong === null ? text : refuse(`it ${wrong}`);
  });
}

/** The same, or nothing: `none`, `off`, YAML's `null` and `~`, and nothing at all mean null. */
export function optional(
  what: string,
  problem: (text: string) => string | null = () => null,
): z.ZodType<string | null> {
  return kind<string | null>(`${what}, or none`, (text, refuse) => {
    if (isNothing(text)) return null;
    const wrong = problem(text);
    return wrong === null ? text : refuse(`it ${wrong}`);
  });
}

function isNothing(text: string): boolean {
  return /^(none|off|null|~|)$/i.test(text);
}

export const regex = kind('a regular expression', parseRegex);

export const optionalRegex = kind<RegExp | null>('a regular expression, or none', (text, refuse) =>
  isNothing(text) ? null : parseRegex(text, refuse),
);

function parseRegex(text: string, refuse: Refuse): RegExp | undefined {
  if (text === '') return refuse('it is empty, and would match everything');
  try {
    return new RegExp(text);
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
}

const urlsAllowed =
  'a list of http://host:port or https://host:port, all of one scheme and without a user or password';

/** URLs of one scheme, separated by commas or as a list. */
export const urls: z.ZodType<readonly string[]> = z
  .union([z.array(z.string()), z.string()], { error: urlsAllowed })
  .transform((value, context) => {
    const list = (Array.isArray(value) ? value : value.split(','))
      .map((url) => url.trim())
      .filter((url) => url !== '');
    const schemes = new Set(list.map((url) => url.split(':')[0]!.toLowerCase()));
    if (schemes.size === 1 && list.every(isEtcdUrl)) return list;
    context.addIssue(urlsAllowed);
    return z.NEVER;
  })
  .meta({ description: urlsAllowed });

function isEtcdUrl(url: string): boolean {
  const match = /^https?:\/\/(?:\[[0-9a-f:.]+\]|[^\s:/?#@]+)(?::(\d{1,5}))?\/?$/i.exec(url);
  return match !== null && Number(match[1] ?? 2379) <= 65_535;
}

/** Null: no HTTP at all. */
export const httpAddress = kind<{ readonly host: string; readonly port: number } | null>(
  'host:port, such as 127.0.0.1:9889 or [::1]:9889, or off',
  (text) => {
    if (isNothing(text)) return null;
    const match = /^(?:(\[[0-9a-f:.]+\]|[^\s:/@[\]]+):)?(\d{1,5})$/i.exec(text);
    if (match === null || Number(match[2]) > 65_535) return undefined;
    return { host: (match[1] ?? '127.0.0.1').replace(/^\[|\]$/g, ''), port: Number(match[2]) };
  },
);
