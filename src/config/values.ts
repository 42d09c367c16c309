/** The kinds of value that settings have: each reads what people write, in YAML, INI or the environment. */
import { z } from 'zod';

const text = z.union([z.string(), z.number(), z.boolean()]).transform(String);

/** Milliseconds, written as `500ms`, `10s`, `5m`, `1h`, or a bare number of seconds. */
export function duration(minMs: number, maxMs: number): z.ZodType<number> {
  const what = `a duration such as 500ms, 10s or 5m (a bare number is seconds) from ${durationText(minMs)} to ${durationText(maxMs)}`;
  return text.transform((value, context) => {
    const match = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)?\s*$/.exec(value);
    const factor = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[match?.[2] ?? 's']!;
    const ms = match === null ? Number.NaN : Number(match[1]) * factor;
    if (ms >= minMs && ms <= maxMs) return ms;
    context.addIssue(what);
    return z.NEVER;
  });
}

export function durationText(ms: number): string {
  if (ms % 3_600_000 === 0 && ms > 0) return `${ms / 3_600_000}h`;
  if (ms % 60_000 === 0 && ms > 0) return `${ms / 60_000}m`;
  return ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

/** Bytes, written as a number or with KiB, MiB, GiB. */
export function size(min: number, max: number): z.ZodType<number> {
  const what = `a size such as 512KiB, 64MiB or 1GiB from ${sizeText(min)} to ${sizeText(max)}`;
  return text.transform((value, context) => {
    const match = /^\s*(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB)?\s*$/i.exec(value);
    const factor = { b: 1, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30 }[(match?.[2] ?? 'B').toLowerCase()]!;
    const bytes = match === null ? Number.NaN : Math.round(Number(match[1]) * factor);
    if (bytes >= min && bytes <= max) return bytes;
    context.addIssue(what);
    return z.NEVER;
  });
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
  return text.transform((value, context) => {
    const number = /^\s*-?\d+\s*$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    context.addIssue(`a whole number from ${min} to ${max}`);
    return z.NEVER;
  });
}

export const flag: z.ZodType<boolean> = text.transform((value, context) => {
  if (/^(true|yes|on|1)$/i.test(value.trim())) return true;
  if (/^(false|no|off|0)$/i.test(value.trim())) return false;
  context.addIssue('true or false');
  return z.NEVER;
});

export function oneOf<const T extends string>(...allowed: T[]): z.ZodType<T> {
  return text.transform((value, context) => {
    const found = allowed.find((one) => one === value.trim());
    if (found !== undefined) return found;
    context.addIssue(`one of ${allowed.join(', ')}`);
    return z.NEVER;
  });
}

export const string: z.ZodType<string> = text;

/** `off`, `none` and nothing at all mean null. */
export const optional: z.ZodType<string | null> = z
  .union([text, z.null()])
  .transform((value) => (value === null || /^(off|none|)$/i.test(value.trim()) ? null : value.trim()));

export const regex: z.ZodType<RegExp> = text.transform((value, context) => {
  try {
    return new RegExp(value);
  } catch (error) {
    context.addIssue(`a regular expression (${error instanceof Error ? error.message : error})`);
    return z.NEVER;
  }
});

export const optionalRegex: z.ZodType<RegExp | null> = z
  .union([text, z.null()])
  .transform((value, context) => {
    if (value === null || value === '') return null;
    const parsed = regex.safeParse(value);
    if (parsed.success) return parsed.data;
    context.addIssue(parsed.error.issues[0]!.message);
    return z.NEVER;
  });

/** URLs of one scheme, separated by commas or as a list. */
export const urls: z.ZodType<readonly string[]> = z
  .union([z.array(z.string()), z.string()])
  .transform((value, context) => {
    const list = (Array.isArray(value) ? value : value.split(','))
      .map((url) => url.trim())
      .filter((url) => url !== '');
    const good =
      list.length > 0 &&
      list.every((url) => /^https?:\/\/(\[[0-9a-f:.]+\]|[^\s:/?#@]+)(:\d{1,5})?\/?$/i.test(url));
    if (good && new Set(list.map((url) => url.split(':')[0])).size === 1) return list;
    context.addIssue(
      'a list of http://host:port or https://host:port, all of one scheme and without a user or password',
    );
    return z.NEVER;
  });

/** Null: no HTTP at all. */
export const httpAddress: z.ZodType<{ readonly host: string; readonly port: number } | null> = text.transform(
  (value, context) => {
    if (/^(off|none|)$/i.test(value.trim())) return null;
    const match = /^(?:(\[[0-9a-f:]+\]|[^\s:]+):)?(\d{1,5})$/i.exec(value.trim());
    if (match !== null && Number(match[2]) <= 65_535) {
      return { host: (match[1] ?? '127.0.0.1').replace(/^\[|\]$/g, ''), port: Number(match[2]) };
    }
    context.addIssue('host:port, such as 127.0.0.1:9889, or off');
    return z.NEVER;
  },
);
