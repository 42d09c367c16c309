import { readFileSync } from 'node:fs';

/** From package.json, which is two folders up from dist/cli and three from build/src/cli. */
export function version(): string {
  for (const up of ['../..', '../../..']) {
    try {
      const content = readFileSync(new URL(`${up}/package.json`, import.meta.url), 'utf8');
      return (JSON.parse(content) as { version: string }).version;
    } catch {
      // the other place, then
    }
  }
  return 'unknown';
}
