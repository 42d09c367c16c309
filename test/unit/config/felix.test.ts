import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { excludesToRegex, prefixesToRegex } from '../../../src/config/felix.js';
import { loadSettings } from '../../../src/config/load.js';
import type { SettingName, Settings } from '../../../src/config/settings.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-felix-'));
after(() => rmSync(folder, { recursive: true }));
let files = 0;

function load(felix: string, env: NodeJS.ProcessEnv = {}): Settings {
  const felixFile = join(folder, `felix-${files++}.cfg`);
  writeFileSync(felixFile, felix);
  return loadSettings({
    overrides: new Map(),
    configFile: null,
    standardFile: join(folder, 'none.yaml'),
    env,
    felixFile,
  });
}

describe("each of Felix's names is understood, in its file and in the environment, in any case", () => {
  const cases: [string, string, SettingName, unknown][] = [
    ['EtcdEndpoints', 'http://a:1,http://b:2', 'etcd.endpoints', ['http://a:1', 'http://b:2']],
    ['EtcdAddr', 'a:4001', 'etcd.endpoints', ['http://a:4001']],
    ['FelixHostname', 'node-7', 'host', 'node-7'],
    ['OpenstackRegion', 'berlin', 'region', 'berlin'],
    ['OpenstackRegion', 'none', 'region', null],
    ['OpenstackRegion', 'None', 'region', null],
    ['InterfacePrefix', 'tap,cali', 'endpoints.interfaces', /^(tap|cali)/],
    ['InterfaceExclude', 'tap0,/^cali9/', 'endpoints.interfaceExclude', /^tap0$|(^cali9)/],
    ['InterfaceExclude', 'none', 'endpoints.interfaceExclude', null],
    ['ReportingIntervalSecs', '15', 'reporting.interval', 15_000],
    ['ReportingIntervalSecs', '0', 'reporting.interval', 0],
    ['ReportingIntervalSecs', 'none', 'reporting.interval', 0],
    ['ReportingTTLSecs', '120', 'reporting.ttl', 120_000],
    ['EndpointReportingDelaySecs', '0.25', 'limits.endpointDelay', 250],
    ['EndpointReportingDelaySecs', 'none', 'limits.endpointDelay', 0],
    ['EtcdCaFile', '/ca.pem', 'etcd.caFile', '/ca.pem'],
    ['EtcdCaFile', 'none', 'etcd.caFile', null],
    ['EtcdEndpoints', 'none', 'etcd.endpoints', ['http://127.0.0.1:2379']],
  ];
  for (const [name, value, setting, expected] of cases)
    test(`${name} = ${value}`, () => {
      assert.deepEqual(load(`[global]\n${name} = ${value}\n`).values[setting], expected);
      assert.deepEqual(load(`[x]\n[y.z]\n${name.toUpperCase()}=${value}`).values[setting], expected);
      assert.deepEqual(load('', { [`FELIX_${name.toUpperCase()}`]: value }).values[setting], expected);
      assert.deepEqual(load('', { [`felix_${name.toLowerCase()}`]: value }).values[setting], expected);
    });

  test('EtcdCertFile and EtcdKeyFile', () => {
    const { values } = load('EtcdCertFile = /c\nEtcdKeyFile = /k\n');
    assert.equal(values['etcd.certFile'], '/c');
    assert.equal(values['etcd.keyFile'], '/k');
  });

  test('DatastoreType', () => {
    load('DatastoreType = etcdv3\n');
    load('DatastoreType = EtcdV3\n');
    assert.throws(
      () => load('DatastoreType = kubernetes\n'),
      /DatastoreType in .*"kubernetes" is not etcdv3/,
    );
    assert.throws(
      () => load('', { FELIX_DATASTORETYPE: 'etcdv2' }),
      /FELIX_DATASTORETYPE in the environment: "etcdv2" is not etcdv3/,
    );
  });
});

describe('EtcdEndpoints wins over EtcdAddr, as in Felix', () => {
  const cases: [string, string, NodeJS.ProcessEnv, string[]][] = [
    ['in the file', 'EtcdAddr=a:1\nEtcdEndpoints=http://b:2\n', {}, ['http://b:2']],
    [
      'also where only the address is in the environment',
      'EtcdEndpoints=http://b:2',
      { FELIX_ETCDADDR: 'a:1' },
      ['http://b:2'],
    ],
    ['unless it is empty', 'EtcdEndpoints=\nEtcdAddr=a:1\n', {}, ['http://a:1']],
    ['unless it is none', 'EtcdEndpoints=none\nEtcdAddr=a:1\n', {}, ['http://a:1']],
    [
      'and the scheme comes from either place',
      'EtcdAddr=a:1\n',
      { FELIX_ETCDSCHEME: 'https' },
      ['https://a:1'],
    ],
    ['and the scheme means nothing by itself', 'EtcdScheme=https\n', {}, ['http://127.0.0.1:2379']],
  ];
  for (const [what, felix, env, expected] of cases)
    test(what, () => {
      assert.deepEqual(load(felix, env).values['etcd.endpoints'], expected);
    });
});

test('the environment wins over the file, and an empty variable is none', () => {
  assert.equal(load('FelixHostname=a', { FELIX_FELIXHOSTNAME: 'b' }).values.host, 'b');
  assert.equal(load('FelixHostname=a', { FELIX_FELIXHOSTNAME: '' }).values.host, 'a');
});

test("what is Felix's alone is ignored, and said to be", () => {
  const { ignored } = load('[global]\nLogSeverityScreen = info\nconstructor = 1\n', {
    FELIX_IPINIPMTU: '1440',
  });
  assert.equal(ignored.length, 3);
  assert.match(ignored[0]!, /^LogSeverityScreen in .*\.cfg$/);
  assert.match(ignored[1]!, /^constructor in .*\.cfg$/);
  assert.match(ignored[2]!, /^FELIX_IPINIPMTU in the environment$/);
});

test("JavaScript's own names in the file do nothing", () => {
  load('[__proto__]\nlanes = 5\npolluted = yes\n__proto__ = 1\n');
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

test('a file that is no text disturbs nothing', () => {
  assert.equal(load('\u0000\u0001=[[[\n]]]\n====\n;;;').values.lanes, 4);
});

test('an interface prefix of nothing would mean every interface, and is refused', () => {
  assert.throws(() => load('InterfacePrefix = ,\n'), /InterfacePrefix in .*"," names no prefix/);
});

test('prefixes and exclusions are taken literally, but for expressions between slashes', () => {
  assert.equal(prefixesToRegex(' tap , ca.li '), '^(tap|ca\\.li)');
  assert.equal(prefixesToRegex(' , '), null);
  const exclude = new RegExp(excludesToRegex('kube-ipvs0,/^dum+y/, a.b'));
  for (const [name, excluded] of [
    ['kube-ipvs0', true],
    ['kube-ipvs01', false],
    ['dummmy7', true],
    ['xdummy', false],
    ['a.b', true],
    ['axb', false],
  ] as const)
    assert.equal(exclude.test(name), excluded, name);
});
