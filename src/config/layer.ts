/** A place that settings come from: each value with where exactly it was found. */
import { readFileSync } from 'node:fs';
import type { SettingName } from './settings.js';

export interface Found {
  /** Text, or a list of texts. What is anything else, the setting's kind refuses. */
  readonly value: unknown;
  readonly source: string;
}

export type Layer = Map<SettingName, Found>;

/** Null where there is no such file, or it cannot be read, which is a problem unless it may be missing. */
export function readConfigFile(path: string, mayBeMissing: boolean, problems: string[]): string | null {
  try {
    return readFileSync(path, 'utf8').replace(/^\ufeff/, '');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && mayBeMissing) return null;
    const wayOut =
      code === 'EACCES'
        ? "; give flapd's user read access to it"
        : code === 'ENOENT'
          ? '; correct the path, or put the file there'
          : '';
    problems.push(`cannot read ${path}: ${message}${wayOut}`);
    return null;
  }
}
