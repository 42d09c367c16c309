import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const rows = readFileSync(`${root}docs/cases.md`, 'utf8')
  .split('\n')
  .filter((line) => /^\| C\d/.test(line))
  .map((line) => {
    const [id, , , , tests] = line.slice(2, -2).split(' | ');
    return {
      id: id!,
      tests: [...tests!.matchAll(/`(test\/[^`]+\.test\.ts)`: “([^”]+)”/g)].map(([, file, name]) => ({
        file: file!,
        name: name!,
      })),
    };
  });

/** As it is written in the source, a template with its placeholders. */
function holds(source: string, name: string): boolean {
  const literal = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`\\b(?:it|test|describe)\\(\\s*(['"\`])${literal}\\1,`).test(source);
}

describe('docs/cases.md', () => {
  it('has every case once, in order', () => {
    assert.deepEqual(
      rows.map(({ id }) => id),
      Array.from({ length: 33 }, (_, i) => `C${i + 1}`),
    );
  });

  for (const { id, tests } of rows) {
    it(`names tests that exist for ${id}`, () => {
      assert.notEqual(tests.length, 0);
      for (const { file, name } of tests) {
        assert.ok(existsSync(root + file), `there is no ${file}`);
        assert.ok(holds(readFileSync(root + file, 'utf8'), name), `${file} has no test “${name}”`);
      }
    });
  }
});
