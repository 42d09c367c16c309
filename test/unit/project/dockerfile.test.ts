import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../../', import.meta.url));
const lines = readFileSync(join(root, 'Dockerfile'), 'utf8').replaceAll('\\\n', ' ').split('\n');
const stages = lines.flatMap((line, i) => (line.startsWith('FROM ') ? [i] : []));
const last = lines.slice(stages.at(-1));

describe('the Dockerfile (no engine builds it in the tests: its promises are read from it)', () => {
  it('has a build stage and a final one', () => {
    assert.equal(stages.length, 2);
  });

  it('runs as another user than root', () => {
    const users = last.filter((line) => line.startsWith('USER ')).map((line) => line.slice(5).trim());
    assert.equal(users.length, 1);
    assert.notEqual(users[0], 'root');
    assert.notEqual(users[0], '0');
  });

  it('asks /readyz whether it is healthy', () => {
    const check = last.find((line) => line.startsWith('HEALTHCHECK '));
    assert.match(check ?? '', /127\.0\.0\.1:9889\/readyz/);
  });

  it('has no compiler and no package manager at work in the final stage', () => {
    for (const line of last.filter((candidate) => candidate.startsWith('RUN '))) {
      assert.doesNotMatch(line, /apt-get|npm |gcc|g\+\+|make|python/);
    }
  });

  it('takes from the build stage the command and what it needs to run, and nothing else', () => {
    const taken = last.filter((line) => line.startsWith('COPY --from=')).map((line) => line.split(/\s+/)[2]);
    assert.deepEqual(taken.sort(), ['/build/dist', '/build/node_modules', '/build/package.json']);
    const build = lines.slice(stages[0], stages[1]).filter((line) => line.startsWith('RUN '));
    assert.match(build.at(-1) ?? '', /npm run build && npm prune --omit=dev/);
  });

  it('starts flapd, and names the port of its metrics', () => {
    const entry = last.find((line) => line.startsWith('ENTRYPOINT ')) ?? '';
    const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      bin: { flapd: string };
    };
    assert.ok((JSON.parse(entry.slice(11)) as string[]).at(-1)?.endsWith(`/${bin.flapd}`), entry);
    assert.ok(last.includes('EXPOSE 9889'));
  });

  it('copies only what exists', () => {
    const ignore = readFileSync(join(root, '.dockerignore'), 'utf8').split('\n');
    const copied = lines
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(/\s+/).slice(1, -1));
    assert.ok(copied.length > 0);
    for (const path of copied) {
      assert.ok(existsSync(join(root, path)), `${path} is copied and does not exist`);
      assert.ok(ignore.includes(`!${path}`), `${path} is copied and ignored by .dockerignore`);
    }
  });
});
