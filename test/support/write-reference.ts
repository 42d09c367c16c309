/** `npm run docs:reference`. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { withTable } from './check-page.js';
import { reference } from './reference.js';

const folder = new URL('../../../docs/reference/', import.meta.url);
mkdirSync(folder, { recursive: true });
for (const [name, content] of await reference()) writeFileSync(new URL(name, folder), content);
const checkPage = new URL('../check.md', folder);
writeFileSync(checkPage, withTable(readFileSync(checkPage, 'utf8')));
