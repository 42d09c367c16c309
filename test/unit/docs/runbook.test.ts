import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExitCode } from '../../../src/daemon/exit.js';
import { read } from '../../support/documents.js';

test('the runbook has each exit code of the daemon and its commands', () => {
  const told = [...read('docs/runbook.md').matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
  assert.deepEqual(
    told,
    Object.values(ExitCode).sort((a, b) => a - b),
  );
});
