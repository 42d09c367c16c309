/** Checks that judge what was seen: no I/O. What is really broken is in test/e2e/check.test.ts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { judgeConfiguration } from '../../../src/check/configuration.js';
import { judgeClaim } from '../../../src/check/etcd/claim.js';
import { judgeForeignWrites } from '../../../src/check/etcd/foreign-writes.js';
import { judgePermissions } from '../../../src/check/etcd/permissions.js';
import { judgeReach, type Seen } from '../../../src/check/etcd/reach.js';
import { judgeVersion } from '../../../src/check/etcd/versions.js';
import { type FelixResource, judgeFelix, parseFelixBoolean } from '../../../src/check/felix.js';
import type { Finding } from '../../../src/check/finding.js';
import { judgeNetlink } from '../../../src/check/local/netlink.js';
import { loadSettings } from '../../../src/config/load.js';
import type { SettingName } from '../../../src/config/settings.js';

const ids = (findings: readonly Finding[]) => findings.map(({ id }) => id);

describe('etcd as it was seen', () => {
  const status = (version: string, knowsLeader = true, clusterId = 1): Seen['status'] => ({
    kind: 'answer',
    value: { version, knowsLeader, clusterId },
  });
  const none: Seen['alarms'] = { kind: 'answer', value: { noSpace: false, corrupt: false } };
  const denied = {
    kind: 'failed',
    failure: { kind: 'denied', message: 'etcdserver: permission denied' },
  } as const;
  const seen = (endpoint: string, of: Seen['status'], alarms: Seen['alarms'] = none): Seen => ({
    endpoint,
    status: of,
    alarms,
  });

  it('is fine where it tells its status to root alone, as newer ones do', () => {
    const findings = judgeReach([seen('a', denied, denied)]);
    assert.deepEqual(ids(findings), [null]);
    assert.match(findings[0]!.what, /root alone/);
  });

  it('is a problem with any alarm, whoever raised it', () => {
    const alarm = (noSpace: boolean, corrupt: boolean): Seen['alarms'] => ({
      kind: 'answer',
      value: { noSpace, corrupt },
    });
    const ok = seen('a', status('3.5.30'));
    assert.deepEqual(ids(judgeReach([ok, seen('b', status('3.5.30'), alarm(true, false))])), [
      'etcd-no-space',
    ]);
    assert.deepEqual(ids(judgeReach([ok, seen('b', status('3.5.30'), alarm(false, true))])), [
      'etcd-corrupt',
    ]);
  });

  it('is warned of for each version once', () => {
    const findings = judgeReach([
      seen('a', status('3.5.1')),
      seen('b', status('3.5.1')),
      seen('c', status('3.5.30')),
    ]);
    assert.deepEqual(ids(findings), [null, 'etcd-version']);
  });

  it('is without a leader only where a member says so', () => {
    assert.deepEqual(ids(judgeReach([seen('a', status('3.5.30', false))])), ['etcd-no-leader']);
  });
});

describe('versions of etcd', () => {
  const cases: [string, number, string | null][] = [
    ['3.3.27', 1, '3.5.28'],
    ['3.4.19', 4, '3.4.42'],
    ['3.4.23', 4, '3.4.42'],
    ['3.4.41', 2, '3.4.42'],
    ['3.4.42', 0, null],
    ['3.5.0', 5, '3.5.28'],
    ['3.5.27', 2, '3.5.28'],
    ['3.5.28', 0, null],
    ['3.6.0-rc.1', 2, '3.6.9'],
    ['3.6.9', 0, null],
    ['3.7.0', 0, null],
    ['4.0.0', 0, null],
    ['unknown', 0, null],
  ];
  for (const [version, faults, upgradeTo] of cases)
    it(`${version} has ${faults} known faults`, () => {
      const verdict = judgeVersion(version);
      assert.equal(verdict.faults.length, faults, verdict.faults.join('; '));
      assert.equal(verdict.upgradeTo, upgradeTo);
    });
});

describe('permissions', () => {
  const need = { key: '/a/', prefix: true, rights: ['read', 'write'], why: 'this' } as const;
  const at = { host: 'h', endpoint: 'http://e' };

  it('that are all there are one line', () => {
    const findings = judgePermissions([{ need, probed: { kind: 'allowed' } }], at);
    assert.deepEqual(ids(findings), [null]);
  });

  it('are no problem of theirs where etcd could not tell', () => {
    const unknown = judgePermissions([{ need, probed: { kind: 'unknown', message: 'no space' } }], at);
    assert.deepEqual(ids(unknown), ['etcd-unknown']);
    assert.equal(unknown[0]!.level, 'warning');
    const refused = judgePermissions([{ need, probed: { kind: 'unauthenticated', message: 'no' } }], at);
    assert.deepEqual(ids(refused), ['etcd-authentication']);
  });
});

describe("Felix's own reporting", () => {
  const read = (value: unknown): FelixResource => ({
    kind: 'read',
    value: value === null ? null : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)),
  });
  const spec = (on: unknown) => read({ spec: { endpointReportingEnabled: on } });
  const nothing = read(null);
  const local = (value: string) => ({ value, source: 'felix.cfg' });
  const judge = (own: ReturnType<typeof local> | null, node: FelixResource, global: FelixResource) =>
    judgeFelix(own, 'h', { node, global }).id;

  it('is what the first of felix.cfg, the node and all nodes says', () => {
    assert.equal(judge(null, nothing, nothing), null);
    assert.equal(judge(null, nothing, spec(true)), 'felix-reports');
    assert.equal(judge(null, spec(false), spec(true)), null);
    assert.equal(judge(null, spec(true), spec(false)), 'felix-reports');
    assert.equal(judge(local('no'), spec(true), spec(true)), null);
    assert.equal(judge(local('Y'), spec(false), spec(false)), 'felix-reports');
  });

  it('is no problem where it cannot be read, or is damaged', () => {
    assert.equal(judge(null, { kind: 'unread' }, { kind: 'unread' }), null);
    assert.equal(judge(null, read('{'), nothing), null);
    assert.equal(judge(null, read('null'), spec(true)), 'felix-reports');
  });

  it('is warned of where Felix would not understand it', () => {
    assert.equal(judge(local('enabled'), nothing, nothing), 'felix-setting');
    assert.deepEqual(['T', '1', 'off', 'F', ''].map(parseFelixBoolean), [true, true, null, false, null]);
  });
});

describe('a claim', () => {
  const where = { host: 'h', region: null };
  const claim = { epoch: 1, instance: 'i', machine: 'm', lanes: 4, startedAt: '2026-01-01T00:00:00Z' };
  const judge = (value: unknown, machine = 'm') =>
    judgeClaim(value === null ? null : Buffer.from(JSON.stringify(value)), where, machine).id;

  it("is fine where there is none, or this machine's", () => {
    assert.equal(judge(null), null);
    assert.equal(judge(claim), null);
  });

  it("is a problem where it is another machine's, or nobody can read it", () => {
    assert.equal(judge(claim, 'other'), 'claim-other-machine');
    assert.equal(judge({ epoch: 'one' }), 'claim-unreadable');
  });
});

describe('foreign writes', () => {
  const event = (key: string, value: string | null, revision: number) => ({
    key,
    value: value === null ? null : Buffer.from(value),
    revision,
  });

  it('are told by key with what they say, and not endlessly', () => {
    const foreign = [
      event('/k0', '{"status":"up"}', 1),
      event('/k0', null, 2),
      event('/k0', 'nonsense', 3),
      ...Array.from({ length: 9 }, (_, i) => event(`/k${i + 1}`, '{"status":"down"}', i + 4)),
    ];
    const { id, what } = judgeForeignWrites({ writes: 12, foreign }, 2000);
    assert.equal(id, 'foreign-writes');
    assert.match(what, /^12 writes within 2 s .*\/k0 \(up, removed, unreadable\); .* and 5 more keys$/);
  });

  it('are not claimed to be none where the watch failed', () => {
    assert.equal(judgeForeignWrites({ failed: 'etcd went away' }, 2000).id, 'etcd-unknown');
  });
});

describe('netlink as it was seen', () => {
  const wanted = { receiveBufferBytes: 65_536, carrierCounters: true };

  it('is fine with all of the buffer and all of the counters', () => {
    assert.deepEqual(ids(judgeNetlink({ grantedBytes: 65_536, interfaces: 3, uncounted: 0 }, wanted)), [
      null,
    ]);
  });

  it('is warned of for a smaller buffer, and for interfaces without counters', () => {
    const less = { grantedBytes: 4096, interfaces: 3, uncounted: 1 };
    assert.deepEqual(ids(judgeNetlink(less, wanted)), ['netlink-buffer', 'netlink-counters']);
    assert.deepEqual(ids(judgeNetlink(less, { ...wanted, carrierCounters: false })), ['netlink-buffer']);
  });

  it('is a problem where there is none', () => {
    assert.deepEqual(ids(judgeNetlink({ failed: 'EAFNOSUPPORT' }, wanted)), ['netlink-failed']);
  });
});

describe('a configuration that is allowed', () => {
  const judge = (overrides: Partial<Record<SettingName, string>>, withSources = false) =>
    judgeConfiguration(
      loadSettings({
        overrides: new Map(Object.entries(overrides)) as ReadonlyMap<SettingName, string>,
        configFile: null,
        env: { FELIX_LOGSEVERITYSCREEN: 'info' },
        felixFile: '/nonexistent/felix.cfg',
        standardFile: '/nonexistent/flapd.yaml',
      }),
      withSources,
    );

  it('is warned of where etcd is reached without TLS over a network', () => {
    for (const endpoint of [
      'http://10.0.0.1:2379',
      'http://etcd:2379',
      'http://[fe80::1]:2379',
      'http://localhost.evil',
    ])
      assert.deepEqual(ids(judge({ 'etcd.endpoints': endpoint })), [null, 'plain-http'], endpoint);
    for (const endpoint of [
      'http://127.1.2.3:2379',
      'http://localhost',
      'http://[::1]:2379',
      'https://etcd:2379',
    ])
      assert.deepEqual(ids(judge({ 'etcd.endpoints': endpoint })), [null], endpoint);
  });

  it('tells the sources when asked, and what it passes over', () => {
    const said = judge({ host: 'h' }, true).map(({ what }) => what);
    assert.ok(said.includes('host = "h" from the command line'), said.join('\n'));
    assert.ok(
      said.some((what) => what.includes('FELIX_LOGSEVERITYSCREEN')),
      said.join('\n'),
    );
  });
});
