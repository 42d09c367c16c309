/** The table of docs/check.md, made from the catalogue. `npm run docs:reference` puts it there. */
import { catalogue, findingIds } from '../../src/check/catalogue.js';

const begin =
  '<!-- The table is made from src/check/catalogue.ts by `npm run docs:reference`: change it there. -->';
const end = '<!-- End of the table. -->';

function table(): string {
  const rows = findingIds.map((id) => {
    const { check, level, broken, says, wayOut } = catalogue[id];
    return `| ${broken} | ${level} \`${id}\` (${check}): ${says} | ${wayOut} |`;
  });
  return ['| what is broken | what `flapd check` says | the way out |', '| --- | --- | --- |', ...rows].join(
    '\n',
  );
}

/** The page with the table as it should be. */
export function withTable(page: string): string {
  const [from, to] = [page.indexOf(begin), page.indexOf(end)];
  if (from < 0 || to < from)
    throw new Error(`docs/check.md has lost the marks of its table: ${begin} ... ${end}`);
  return `${page.slice(0, from)}${begin}\n\n${table()}\n\n${page.slice(to)}`;
}
