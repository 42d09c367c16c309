import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { variableName } from '../../../src/config/environment.js';
import { ConfigError, loadSettings } from '../../../src/config/load.js';
import { definitions, type SettingName, type Settings, settingNames } from '../../../src/config/settings.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-config-'));
after(() => rmSync(folder, { recursive: true }));
let files = 0;

interface Given {
  readonly line?: Partial<Record<SettingName, string>>;
  readonly env?: NodeJS.ProcessEnv;
  readonly yaml?: string;
  readonly felix?: string;
}

function load({ line = {}, env = {}, yaml, felix }: Given): Settings {
  const file = (content: string | undefined): string => {
    const path = join(folder, `file-${files++}`);
    if (content !== undefined) writeFileSync(path, content);
    return path;
  };
  return loadSettings({
    overrides: new Map(Object.entries(line) as [SettingName, string][]),
    configFile: null,
    env,
    standardFile: file(yaml),
    felixFile: file(felix),
  });
}

function problemsOf(given: Given): readonly string[] {
  try {
    load(given);
  } catch (error) {
    assert.ok(error instanceof ConfigError);
    assert.equal(error.code, 'CONFIG_INVALID');
    return error.problems;
  }
  assert.fail('it should have been refused');
}

test('with nothing set, each setting has its standard value, and none has a source', () => {
  const { values, sources, ignored } = load({});
  for (const name of settingNames) assert.deepEqual(values[name], definitions[name].standard(), name);
  assert.equal(sources.size, 0);
  assert.deepEqual(ignored, []);
});

test('each standard value is one that could be set', () => {
  const { values } = load({});
  for (const name of settingNames) {
    const value = values[name];
    const text =
      value === null
        ? 'none'
        : value instanceof RegExp
          ? value.source
          : Array.isArray(value)
            ? value.join(',')
            : typeof value === 'object'
              ? Object.values(value).join(':')
              : typeof value === 'number' && definitions[name].kind.meta()?.unit === 'duration'
                ? `${value}ms`
                : String(value);
    assert.deepEqual(load({ line: { [name]: text } }).values[name], value, name);
  }
});

test('settings cannot be changed', () => {
  const settings = load({});
  for (const part of [settings, settings.values, settings.values['etcd.endpoints'], settings.values.http])
    assert.ok(Object.isFrozen(part));
});

test('the command line wins over the environment, that over the file, that over Felix, that over the standard', () => {
  const all = {
    line: { 'limits.endpointDelay': '1ms' },
    env: {
      FLAPD_LIMITS_ENDPOINT_DELAY: '2ms',
      FELIX_ENDPOINTREPORTINGDELAYSECS: '0.004',
    },
    yaml: 'limits:\n  endpointDelay: 3ms\n',
    felix: '[global]\nEndpointReportingDelaySecs = 0.005\n',
  } as const;
  const { FELIX_ENDPOINTREPORTINGDELAYSECS } = all.env;
  const steps: [Given, number, RegExp | undefined][] = [
    [all, 1, /^the command line$/],
    [{ ...all, line: {} }, 2, /^FLAPD_LIMITS_ENDPOINT_DELAY in the environment$/],
    [{ ...all, line: {}, env: { FELIX_ENDPOINTREPORTINGDELAYSECS } }, 3, /file-\d+$/],
    [
      { felix: all.felix, env: { FELIX_ENDPOINTREPORTINGDELAYSECS } },
      4,
      /^FELIX_ENDPOINTREPORTINGDELAYSECS in the environment$/,
    ],
    [{ felix: all.felix }, 5, /^EndpointReportingDelaySecs in .*file-\d+$/],
    [{}, 1000, undefined],
  ];
  for (const [given, expected, source] of steps) {
    const { values, sources } = load(given);
    assert.equal(values['limits.endpointDelay'], expected);
    if (source === undefined) assert.equal(sources.has('limits.endpointDelay'), false);
    else assert.match(sources.get('limits.endpointDelay')!, source);
  }
});

test('each setting has a variable of its own', () => {
  assert.equal(variableName('limits.txnsPerSecond'), 'FLAPD_LIMITS_TXNS_PER_SECOND');
  assert.equal(variableName('httpRequired'), 'FLAPD_HTTP_REQUIRED');
  assert.equal(new Set(settingNames.map(variableName)).size, settingNames.length);
});

describe("flapd's file", () => {
  test('takes nested names, names with dots, and both', () => {
    const { values } = load({
      yaml: 'etcd:\n  endpoints: [http://a:1, http://b:2]\nlimits.burst: 7\njournal: {sync: never}\n',
    });
    assert.deepEqual(values['etcd.endpoints'], ['http://a:1', 'http://b:2']);
    assert.equal(values['limits.burst'], 7);
    assert.equal(values['journal.sync'], 'never');
  });

  test('leaves names as they are written: 007 is no number, and no is no flag', () => {
    const { values } = load({ yaml: 'host: 007\nregion: no\nfeed.group: 1e3\n' });
    assert.equal(values.host, '007');
    assert.equal(values.region, 'no');
    assert.equal(values['feed.group'], '1e3');
  });

  test('says none as YAML does', () => {
    const { values } = load({ yaml: 'journal:\n  dir: null\nfeed: {socket: ~}\nhttp:\n' });
    assert.equal(values['journal.dir'], null);
    assert.equal(values['feed.socket'], null);
    assert.equal(values.http, null);
  });

  for (const [what, yaml] of [
    ['is empty', ''],
    ['holds comments only', '# nothing\n'],
    ['has a section with nothing in it', 'limits:\n#  burst: 5\n'],
    ['begins with a byte order mark', '\ufeffworkers: 0\n'],
  ] as const)
    test(`may be one that ${what}`, () => {
      assert.equal(load({ yaml }).values['limits.burst'], 100);
    });

  for (const [what, yaml, expected] of [
    ['broken YAML, with the line', 'lanes: 1\nhost: "x\n', /no proper YAML: .* at line \d/],
    ['a name that is set twice', 'lanes: 1\nlanes: 2\n', /no proper YAML: Map keys must be unique at line 2/],
    [
      'a name that is set twice in two ways',
      'limits:\n  burst: 1\nlimits.burst: 2\n',
      /limits\.burst is set twice/,
    ],
    ['two documents', 'lanes: 1\n---\nlanes: 2\n', /no proper YAML/],
    ['an unknown tag', 'lanes: !!js/function 1\n', /no proper YAML: Unresolved tag/],
    ['a list', '- lanes\n', /^the content in .* is no setting$/],
    [
      'a misspelt name',
      'limit:\n  burst: 5\n',
      /"limit\.burst" in .* is no setting; did you mean limits\.burst\?$/,
    ],
    ['a name like nothing else', 'colour: red\n', /"colour" in \S+ is no setting$/],
    ['a value for a section', 'limits: 5\n', /limits by itself in .* is no setting$/],
    [
      "JavaScript's own names",
      '__proto__:\n  lanes: 5\nconstructor: 1\n',
      /"__proto__\.lanes" in .* is no setting/,
    ],
    [
      'a list for a number',
      'lanes: [1, 2]\n',
      /^lanes from .*: "\[\\"1\\",\\"2\\"\]" is not a whole number from 1 to 64$/,
    ],
    ['nothing for a number', 'lanes:\n', /^lanes from .*: "" is not a whole number/],
    ['a map for a value', 'host: {a: b}\n', /^host from .* is not a host name$/],
    ['a secret where none belongs', 'etcd:\n  password: hunter2\n', /^"etcd\.password" in ((?!hunter2).)*$/],
  ] as const)
    test(`is refused with ${what}`, () => {
      assert.match(problemsOf({ yaml })[0]!, expected);
    });

  test('is refused where aliases stand for more than fits', () => {
    const yaml = ['a: &a [x, x, x, x, x, x, x, x, x, x]'];
    for (let i = 0; i < 6; i++) {
      const [from, to] = ['abcdefg'[i]!, 'abcdefg'[i + 1]!];
      yaml.push(`${to}: &${to} [${Array(10).fill(`*${from}`).join(', ')}]`);
    }
    assert.match(problemsOf({ yaml: yaml.join('\n') })[0]!, /cannot be read: Excessive alias count/);
  });

  test('must be there where it is asked for, and need not otherwise', () => {
    const options = { overrides: new Map(), env: {}, felixFile: join(folder, 'no') };
    const missing = join(folder, 'missing.yaml');
    assert.throws(
      () => loadSettings({ ...options, configFile: missing }),
      /cannot read .*missing\.yaml: ENOENT/,
    );
    assert.throws(
      () => loadSettings({ ...options, configFile: null, env: { FLAPD_CONFIG: missing } }),
      /cannot read .*missing\.yaml: ENOENT/,
    );
    assert.equal(loadSettings({ ...options, configFile: null, standardFile: missing }).values.lanes, 4);
    assert.throws(() => loadSettings({ ...options, configFile: folder }), /cannot read .*EISDIR/);
  });
});

test('all problems are in one error, each with its source, its value and what is allowed', () => {
  const given: Given = {
    line: { lanes: '0' },
    env: { FLAPD_LIMITS_BURST: 'many', FLAPD_LIMTS_BURST: '1', FLAPD_ETCD_ENDPOINTS: 'http://u:hunter2@e:1' },
    yaml: 'region: Berlin\nhost: a/b\nresync: {interval: 1ms}\n',
    felix: 'DatastoreType = kubernetes\nReportingIntervalSecs = soon\n',
  };
  const problems = problemsOf(given);
  const expected = [
    /^"FLAPD_LIMTS_BURST" in the environment is no setting; did you mean FLAPD_LIMITS_BURST\?$/,
    /^DatastoreType in .*file-\d+: "kubernetes" is not etcdv3/,
    /^host from .*file-\d+: "a\/b" is not a host name \(it holds a "\/"/,
    /^region from .*: "Berlin" is not the name of a region, or none \(it is no lower-case DNS label/,
    /^etcd\.endpoints from FLAPD_ETCD_ENDPOINTS in the environment: "http:\/\/\(redacted\)@e:1" is not a list/,
    /^lanes from the command line: "0" is not a whole number from 1 to 64$/,
    /^limits\.burst from FLAPD_LIMITS_BURST in the environment: "many" is not a whole number/,
    /^resync\.interval from .*: "1ms" is not a duration .* from 1s to 24h$/,
    /^reporting\.interval from ReportingIntervalSecs in .*: "soon" is not a duration/,
  ];
  assert.equal(problems.length, expected.length, problems.join('\n'));
  expected.forEach((pattern, i) => {
    assert.match(problems[i]!, pattern);
  });
  assert.throws(() => load(given), /^ConfigError: the configuration has 9 problems:\n {2}- "FLAPD_LIMTS/);
});

describe('values that contradict one another are refused', () => {
  const cases: [Partial<Record<SettingName, string>>, RegExp][] = [
    [{ 'etcd.certFile': '/c' }, /^etcd\.certFile is set without etcd\.keyFile/],
    [{ 'etcd.keyFile': '/k' }, /^etcd\.keyFile is set without etcd\.certFile/],
    [{ 'etcd.user': 'u' }, /^etcd\.user is set without etcd\.passwordFile/],
    [{ 'etcd.passwordFile': '/p' }, /^etcd\.passwordFile is set without etcd\.user/],
    [{ 'reporting.ttl': '30s' }, /^reporting\.ttl is not above reporting\.interval/],
    [{ 'endpoints.from': 'feed', 'feed.socket': 'off' }, /nothing could ever be reported/],
  ];
  for (const [line, expected] of cases)
    test(Object.keys(line).join(' and '), () => {
      const problems = problemsOf({ line });
      assert.equal(problems.length, 1);
      assert.match(problems[0]!, expected);
    });

  test('but not where together they make sense', () => {
    load({
      line: { 'etcd.certFile': '/c', 'etcd.keyFile': '/k', 'etcd.user': 'u', 'etcd.passwordFile': '/p' },
    });
    load({ line: { 'reporting.interval': '0', 'reporting.ttl': '1s' } });
  });
});

test('variables that are no settings of flapd are left alone', () => {
  load({ env: { FLAPD_ETCD: '/usr/bin/etcd', FLAPD_CACHE: '/c', PATH: '/bin', flapd_lanes: 'x' } });
});
