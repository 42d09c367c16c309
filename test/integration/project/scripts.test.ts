import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

const scripts = fileURLToPath(new URL('../../../../scripts', import.meta.url));

/** A project of nothing but the scripts, and stand-ins for what they call: they are found first on the PATH. */
let root: string;
let tools: string;

interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'flapd-scripts-'));
  tools = join(root, 'tools');
  mkdirSync(tools);
  cpSync(scripts, join(root, 'scripts'), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, content: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
}

function tool(name: string, script: string): string {
  const file = join(tools, name);
  writeFileSync(file, `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  return file;
}

function environment(more: Record<string, string> = {}): Record<string, string> {
  const path = `${tools}:${dirname(process.execPath)}:/usr/sbin:/usr/bin:/sbin:/bin`;
  return { PATH: path, HOME: root, FLAPD_CACHE: join(root, 'cache'), ...more };
}

function run(
  script: string,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Outcome> {
  const child = spawn(join(root, 'scripts', script), args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: environment(env),
    cwd: '/',
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (data) => {
    stdout += data;
  });
  child.stderr.on('data', (data) => {
    stderr += data;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
}

function etcdOfVersion(version: string): string {
  return `echo 'etcd Version: ${version}'`;
}

describe('scripts/etcd', () => {
  it('takes the one that FLAPD_ETCD names, and says so where it cannot', async () => {
    const etcd = tool('my-etcd', 'exit 0');
    assert.equal((await run('etcd', [], { FLAPD_ETCD: etcd })).stdout, `${etcd}\n`);
    const { code, stdout, stderr } = await run('etcd', [], { FLAPD_ETCD: `${etcd}-not` });
    assert.deepEqual([code, stdout], [69, '']);
    assert.match(stderr, /my-etcd-not cannot be run/);
  });

  it('takes one on the PATH, of the version that is asked for', async () => {
    tool('apt-get', 'exit 100');
    const etcd = tool('etcd', etcdOfVersion('3.4.23'));
    assert.equal((await run('etcd')).stdout, `${etcd}\n`);
    assert.equal((await run('etcd', ['--version', '3.4'])).stdout, `${etcd}\n`);
    assert.equal((await run('etcd', ['--version', '3.5'])).code, 69);
  });

  for (const old of ['3.3.25', '2.3.8', 'nonsense']) {
    it(`does not take an etcd ${old}`, async () => {
      tool('apt-get', 'exit 100');
      tool('etcd', etcdOfVersion(old));
      assert.equal((await run('etcd')).code, 69);
    });
  }

  it('says what can be done where there is none to be had, and leaves nothing half done', async () => {
    tool('etcd', 'exit 1');
    tool('apt-get', 'exit 100');
    const { code, stdout, stderr } = await run('etcd');
    assert.deepEqual([code, stdout], [69, '']);
    assert.match(stderr, /apt-get install etcd-server.*PATH.*FLAPD_ETCD=/);
    assert.deepEqual(leftInCache(), []);
  });

  it('refuses what it does not know', async () => {
    for (const args of [['--version', '2'], ['--version'], ['--nonsense']]) {
      const { code, stderr } = await run('etcd', args);
      assert.equal(code, 64, args.join(' '));
      assert.match(stderr, /^Usage: /);
    }
  });

  describe('where it fetches', () => {
    /** Debian's package of this version, from any suite whose name is in the list. */
    function packages(version: string, ...suites: readonly string[]): void {
      tool('etcd', 'exit 1'); // hides one that the machine may have
      tool(
        'apt-get',
        `case "$*" in *update*) echo update >>"${root}/calls"; grep -qE ' (${suites.join('|')}) main' sources.list; exit;; esac
         touch etcd-server.deb etcd-client.deb`,
      );
      tool(
        'dpkg-deb',
        `[ -n "$DPKG_FAILS" ] && exit 2
         mkdir -p "$3/usr/bin"
         for name in etcd etcdctl; do
           printf '#!/bin/sh\\n%s\\n' "${etcdOfVersion(version)}" >"$3/usr/bin/$name"; chmod +x "$3/usr/bin/$name"
         done`,
      );
    }

    it('unpacks the package into the cache, once, though two ask at the same time', async () => {
      packages('3.5.16', 'trixie');
      const outcomes = await Promise.all([run('etcd'), run('etcd'), run('etcd', ['--etcdctl'])]);
      const bin = join(root, 'cache/etcd-3.5/usr/bin');
      assert.deepEqual(
        outcomes.map(({ stdout }) => stdout),
        [`${bin}/etcd\n`, `${bin}/etcd\n`, `${bin}/etcdctl\n`],
        outcomes.map(({ stderr }) => stderr).join('\n'),
      );
      assert.equal(readFileSync(join(root, 'calls'), 'utf8'), 'update\n');
      assert.deepEqual(leftInCache(), ['etcd-3.5']);
    });

    it('asks the next suite where one has nothing', async () => {
      packages('3.5.30', 'sid');
      assert.match((await run('etcd', ['--version', '3.5'])).stdout, /etcd-3\.5\/usr\/bin\/etcd\n$/);
    });

    it('is content with 3.4 where there is no 3.5, unless it was to be that', async () => {
      packages('3.4.23', 'bookworm');
      assert.match((await run('etcd')).stdout, /etcd-3\.4\/usr\/bin\/etcd\n$/);
      assert.equal((await run('etcd', ['--version', '3.5'])).code, 69);
    });

    it('does not keep a package that cannot be unpacked', async () => {
      packages('3.5.16', 'trixie');
      assert.equal((await run('etcd', [], { DPKG_FAILS: '1' })).code, 69);
      assert.deepEqual(leftInCache(), []);
    });
  });

  function leftInCache(): string[] {
    return readdirSync(join(root, 'cache')).filter((name) => !name.startsWith('.'));
  }
});

describe('what the scripts share', () => {
  beforeEach(() => {
    for (const file of ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'])
      write(file, '{}');
    write('src/cli/main.ts', '');
  });

  /** npm, of which "ci" makes node_modules and "run build" a main.js that says what is in the source. */
  function npm(): void {
    tool(
      'npm',
      `echo "$1" >>"${root}/calls"
       [ -n "$NPM_FAILS" ] && exit 7
       if [ "$1" = ci ]; then mkdir -p node_modules; exit; fi
       while [ "$1" != --outDir ]; do shift; done
       mkdir -p "$2/cli" && cp src/cli/main.ts "$2/cli/main.js"`,
    );
  }

  function calls(): string[] {
    return existsSync(join(root, 'calls'))
      ? readFileSync(join(root, 'calls'), 'utf8').trim().split('\n')
      : [];
  }

  it('installs and builds once, though two start at the same time, and passes arguments and exit code on', async () => {
    npm();
    write('src/cli/main.ts', 'console.log(process.argv.slice(2).join()); process.exitCode = 42;');
    const outcomes = await Promise.all([run('flapd', ['a', 'b c']), run('flapd', ['a', 'b c'])]);
    for (const { code, stdout, stderr } of outcomes)
      assert.deepEqual([code, stdout], [42, 'a,b c\n'], stderr);
    assert.deepEqual(calls(), ['ci', 'run']);
  });

  it('builds again where the source has changed, and installs again where the lock file has', async () => {
    npm();
    write('src/cli/main.ts', 'console.log(1)');
    assert.equal((await run('flapd')).stdout, '1\n');
    write('src/cli/main.ts', 'console.log(2)');
    assert.equal((await run('flapd')).stdout, '2\n');
    write('package-lock.json', '{"changed":1}');
    assert.equal((await run('flapd')).stdout, '2\n');
    assert.deepEqual(calls(), ['ci', 'run', 'run', 'ci']);
  });

  it('fails where installing fails, and tries again the next time', async () => {
    npm();
    write('src/cli/main.ts', 'console.log(1)');
    assert.deepEqual(await run('flapd', [], { NPM_FAILS: '1' }).then(({ code, stdout }) => [code, stdout]), [
      7,
      '',
    ]);
    assert.equal((await run('flapd')).stdout, '1\n');
    assert.deepEqual(calls(), ['ci', 'ci', 'run']);
  });

  it('keeps what was built before where building fails, and tries again the next time', async () => {
    npm();
    write('src/cli/main.ts', 'console.log(1)');
    await run('flapd');
    write('src/cli/main.ts', 'console.log(2)');
    assert.equal((await run('flapd', [], { NPM_FAILS: '1' })).code, 7);
    assert.equal(readFileSync(join(root, 'dist/cli/main.js'), 'utf8'), 'console.log(1)');
    assert.equal((await run('flapd')).stdout, '2\n');
  });

  it('lets scripts/run hand over to flapd: a signal is one signal, the exit code its own, and the user has the last word', async () => {
    npm();
    const etcd = tool('my-etcd', 'exit 0');
    write(
      'src/cli/main.ts',
      'console.log(JSON.stringify([process.ppid, process.env.FLAPD_ETCD, ...process.argv.slice(2)])); process.exitCode = 75;',
    );
    const { code, stdout, stderr } = await run('run', ['--for', '1', '--http=127.0.0.1:7'], {
      FLAPD_ETCD: etcd,
    });
    assert.equal(code, 75, stderr);
    const [parent, found, command, ...args] = JSON.parse(stdout) as [number, ...string[]];
    assert.equal(parent, process.pid, 'flapd has taken the place of the script');
    assert.deepEqual([found, command], [etcd, 'run']);
    assert.deepEqual(args.slice(-3), ['--for', '1', '--http=127.0.0.1:7']);
    assert.ok(args.includes('--etcd-embedded'));
    assert.match(stderr, /http:\/\/127\.0\.0\.1:7\/metrics/);
  });

  describe('scripts/test', () => {
    /** The compiler copies *.ts to build/*.js; the other checks pass. */
    beforeEach(() => {
      npm();
      const etcd = 'case "$2" in 3.4) echo /etcd34;; *) echo /etcd35;; esac';
      writeFileSync(join(root, 'scripts/etcd'), `#!/bin/bash\n${etcd}\n`, { mode: 0o755 });
      for (const name of ['ip', 'strace', 'perl', 'openssl', 'nft', 'mount']) tool(name, 'exit 0');
      tool(
        'npx',
        `[ "$1" = "$NPX_FAILS" ] && exit 3
         if [ "$1" = tsc ]; then for file in $(find src test -name '*.ts'); do
           mkdir -p "build/$(dirname "$file")" && cp "$file" "build/\${file%.ts}.js"
         done; fi`,
      );
      mkdirSync(join(root, 'bench'));
      write('package.json', '{"type":"commonjs"}');
      write(
        'test/unit/good.test.ts',
        'const { it } = require("node:test"); it("one", () => {}); it("two", () => {});',
      );
    });

    const stages = 7;
    const lastLine = ({ stdout }: Outcome): string => stdout.trimEnd().split('\n').at(-1)!;

    it('adds up all stages and tests, and says so in its last line', async () => {
      write('test/e2e/more.test.ts', 'require("node:test").it("three", () => {});');
      const outcome = await run('test');
      assert.deepEqual(
        [outcome.code, lastLine(outcome)],
        [0, `${stages + 3} passed, 0 failed`],
        outcome.stdout,
      );
    });

    it('fails where a test fails', async () => {
      write('test/unit/bad.test.ts', 'require("node:test").it("bad", () => { throw new Error("no"); });');
      const outcome = await run('test');
      assert.deepEqual(
        [outcome.code, lastLine(outcome)],
        [1, `${stages + 2} passed, 1 failed`],
        outcome.stdout,
      );
    });

    for (const [how, source] of [
      ['ends too early', 'process.exit(9);'],
      ['dies of a signal', 'process.kill(process.pid, "SIGKILL");'],
      ['throws before its first test', 'throw new Error("no");'],
    ] as const) {
      it(`fails where a test file ${how}`, async () => {
        write('test/integration/bad.test.ts', source);
        const outcome = await run('test');
        assert.deepEqual(
          [outcome.code, lastLine(outcome)],
          [1, `${stages + 2} passed, 1 failed`],
          outcome.stdout,
        );
      });
    }

    for (const check of ['biome', 'tsc', 'depcruise']) {
      it(`fails where ${check} does, and runs the rest all the same`, async () => {
        write('build/test/unit/good.test.js', readFileSync(join(root, 'test/unit/good.test.ts'), 'utf8'));
        const outcome = await run('test', [], { NPX_FAILS: check });
        assert.deepEqual(
          [outcome.code, lastLine(outcome)],
          [1, `${stages + 1} passed, 1 failed`],
          outcome.stdout,
        );
      });
    }

    it('fails where installing fails', async () => {
      const outcome = await run('test', [], { NPM_FAILS: '1' });
      assert.equal(outcome.code, 1, outcome.stdout);
      assert.match(lastLine(outcome), /^\d+ passed, 1 failed$/);
    });

    it('runs the files whose path holds a word; none is a failure', async () => {
      write('test/unit/other.test.ts', 'require("node:test").it("three", () => {});');
      assert.equal(lastLine(await run('test', ['unit/oth'])), `${stages + 1} passed, 0 failed`);
      const outcome = await run('test', ['no-such-word']);
      assert.deepEqual([outcome.code, lastLine(outcome)], [1, `${stages} passed, 1 failed`], outcome.stdout);
    });

    it('does not run a compiled test whose source is gone', async () => {
      write('build/test/unit/gone.test.js', 'throw new Error("no");');
      const outcome = await run('test');
      assert.deepEqual(
        [outcome.code, lastLine(outcome)],
        [0, `${stages + 2} passed, 0 failed`],
        outcome.stdout,
      );
    });
  });
});

describe('every script', () => {
  for (const name of readdirSync(scripts)) {
    it(`scripts/${name} is correct for bash`, () => {
      const { status, stderr } = spawnSync('bash', ['-n', join(scripts, name)], { encoding: 'utf8' });
      assert.equal(status, 0, stderr);
    });
  }
});
