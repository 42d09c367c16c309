import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { reference } from '../../support/reference.js';

for (const [name, content] of await reference())
  test(`docs/reference/${name} says what the code does`, () => {
    const committed = readFileSync(new URL(`../../../../docs/reference/${name}`, import.meta.url), 'utf8');
    assert.equal(
      committed,
      content,
      'it is out of date: run npm run docs:reference, and commit what it writes',
    );
  });
