/** The project's documents, and what they name: for the tests that hold them together with the code and one another. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../../', import.meta.url));

/** @param path from the project's root */
export function read(path: string): string {
  return readFileSync(root + path, 'utf8');
}

/** The Markdown files of the root and below docs/, as paths from the root. */
export function documents(): string[] {
  const below = readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' });
  return [...readdirSync(root), ...below.map((path) => `docs/${path}`)].filter((path) =>
    path.endsWith('.md'),
  );
}

/** The anchors that GitHub gives to the headings of a Markdown text. */
export function anchors(markdown: string): Set<string> {
  const found = new Set<string>();
  for (const [, heading] of withoutBlocks(markdown).matchAll(/^#{1,6} +(.+)$/gm)) {
    const anchor = heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_\- ]/gu, '')
      .replaceAll(' ', '-');
    let unique = anchor;
    for (let n = 1; found.has(unique); n++) unique = `${anchor}-${n}`;
    found.add(unique);
  }
  return found;
}

/** Where the links of a Markdown text lead to. */
export function links(markdown: string): string[] {
  return [...withoutBlocks(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
}

/** What stands between backticks, outside of blocks. */
export function codeSpans(markdown: string): string[] {
  return [...withoutBlocks(markdown).matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!);
}

/** The blocks of one language, without their fences. */
export function blocks(markdown: string, language: string): string[] {
  return [...markdown.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, block]) => block!,
  );
}

/** Blocks may hold lines that look like headings or links. */
function withoutBlocks(markdown: string): string {
  return markdown.replace(/^ *```[\s\S]*?^ *```$/gm, '');
}

/** The names of all metrics, as docs/reference/metrics.md has them. */
export function metricNames(): Set<string> {
  return new Set(
    [...read('docs/reference/metrics.md').matchAll(/^\| `(flapd_\w+)`/gm)].map(([, name]) => name!),
  );
}

/** The metrics that a text of Prometheus' query language, or of prose, names: a histogram's series are the histogram. */
export function metricsIn(text: string): Set<string> {
  const known = metricNames();
  const named = text.match(/\bflapd_[a-z_]+\b/g) ?? [];
  return new Set(
    named.map((name) => {
      const whole = name.replace(/_(?:bucket|sum|count)$/, '');
      return known.has(whole) ? whole : name;
    }),
  );
}
