import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { catalogue, findingIds } from '../../../src/check/catalogue.js';
import { anyProblem, fine, formatFindings, found } from '../../../src/check/finding.js';
import { withTable } from '../../support/check-page.js';

const root = new URL('../../../../', import.meta.url);

describe('what flapd check can find', () => {
  it('is what docs/check.md says', () => {
    const page = readFileSync(new URL('docs/check.md', root), 'utf8');
    assert.equal(page, withTable(page), 'the table is out of date: run npm run docs:reference');
  });

  it('has tests, each of it', () => {
    const tests = ['test/e2e/check.test.ts', 'test/unit/check/judge.test.ts', 'test/unit/check/local.test.ts']
      .map((file) => readFileSync(new URL(file, root), 'utf8'))
      .join('\n');
    const untested = findingIds.filter((id) => !tests.includes(`'${id}'`));
    assert.deepEqual(untested, []);
  });

  it('has no cell that would break the table', () => {
    for (const id of findingIds)
      for (const text of Object.values(catalogue[id])) assert.doesNotMatch(text, /[|\n]/, id);
  });
});

describe('a report', () => {
  const warning = found('journal-memory', 'no journal', 'one line\nand another');
  const problem = found('http-taken', 'taken', 'another port');

  it('fails for a problem, and not for a warning', () => {
    assert.equal(anyProblem([fine('etcd', 'x'), warning]), false);
    assert.equal(anyProblem([warning, problem]), true);
  });

  it('has a line for each finding, and the way out below', () => {
    assert.deepEqual(formatFindings([fine('etcd', 'reachable'), warning, problem]).split('\n'), [
      'OK        etcd     reachable',
      'WARNING   journal  no journal [journal-memory]',
      '                   way out: one line',
      '                            and another',
      'PROBLEM   http     taken [http-taken]',
      '                   way out: another port',
      '1 problem, 1 warning',
    ]);
    assert.match(formatFindings([fine('etcd', 'reachable')]), /\nall is well$/);
  });
});
