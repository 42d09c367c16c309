/** `npm run docs:reference`. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { reference } from './reference.js';

const folder = new URL('../../../docs/reference/', import.meta.url);
mkdirSync(folder, { recursive: true });
for (const [name, content] of await reference()) writeFileSync(new URL(name, folder), content);
