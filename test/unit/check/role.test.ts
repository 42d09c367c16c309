import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { needsOf, roleCommands } from '../../../src/check/role.js';
import { shellWord } from '../../../src/check/shell.js';
import { loadSettings } from '../../../src/config/load.js';
import type { SettingName, SettingValues } from '../../../src/config/settings.js';
import { workloadResources } from '../../../src/sources/datastore/resource.js';

function values(overrides: Partial<Record<SettingName, string>>): SettingValues {
  return loadSettings({
    overrides: new Map(Object.entries(overrides)) as ReadonlyMap<SettingName, string>,
    configFile: null,
    env: {},
    felixFile: '/nonexistent/felix.cfg',
    standardFile: '/nonexistent/flapd.yaml',
  }).values;
}

const typed = { name: 'flapd', proof: 'typed', passwordFile: null } as const;

describe("the smallest role for a host's flapd", () => {
  it('is, with a region and Calico as the source, just this', () => {
    const commands = roleCommands(values({ host: 'node-1', region: 'east' }), typed);
    assert.deepEqual(commands, [
      'etcdctl role add flapd-node-1',
      'etcdctl role grant-permission flapd-node-1 readwrite /calico/flapd/v1/region-east/host/node-1/ --prefix=true',
      'etcdctl role grant-permission flapd-node-1 readwrite /calico/felix/v2/region-east/host/node-1/workload/ --prefix=true',
      'etcdctl role grant-permission flapd-node-1 readwrite /calico/felix/v1/host/node-1/endpoint/ --prefix=true',
      'etcdctl role grant-permission flapd-node-1 readwrite /calico/felix/v2/region-east/host/node-1/status',
      'etcdctl role grant-permission flapd-node-1 readwrite /calico/felix/v2/region-east/host/node-1/last_reported_status',
      'etcdctl role grant-permission flapd-node-1 read /calico/resources/v3/projectcalico.org/workloadendpoints/openstack-region-east/node--1- --prefix=true',
      'etcdctl role grant-permission flapd-node-1 read /calico/resources/v3/projectcalico.org/hostendpoints/ --prefix=true',
      'etcdctl user add flapd',
      'etcdctl user grant-role flapd flapd-node-1',
    ]);
  });

  it('leaves out what is not used: the process status, the resources', () => {
    const without = needsOf(
      values({ host: 'h', 'endpoints.from': 'interfaces', 'reporting.processStatus': 'false' }),
    );
    assert.deepEqual(
      without.map(({ key }) => key),
      [
        '/calico/flapd/v1/no-region/host/h/',
        '/calico/felix/v2/no-region/host/h/workload/',
        '/calico/felix/v1/host/h/endpoint/',
      ],
    );
  });

  it('ends each prefix with what no other host can go on with', () => {
    for (const { key, prefix } of needsOf(values({ host: 'host1' }))) if (prefix) assert.match(key, /[/-]$/);
    assert.match(workloadResources({ host: 'a-b', region: null }), /\/openstack\/a--b-$/);
  });

  it('is given to a user with a password, from a file or typed in, or with a certificate', () => {
    const line = (user: Parameters<typeof roleCommands>[1]) =>
      roleCommands(values({ host: 'h' }), user).at(-2);
    assert.equal(
      line({ name: 'u', proof: 'file', passwordFile: '/etc/my pw' }),
      "etcdctl user add u --interactive=false < '/etc/my pw'",
    );
    assert.equal(
      line({ name: 'cn', proof: 'certificate', passwordFile: null }),
      'etcdctl user add cn --no-password',
    );
    assert.equal(line(typed), 'etcdctl user add flapd');
  });

  it('is safe to give to a shell, whatever a host is called', () => {
    assert.equal(shellWord('/calico/a-b.c/'), '/calico/a-b.c/');
    assert.equal(shellWord("it's; rm -rf $HOME"), `'it'\\''s; rm -rf $HOME'`);
    assert.equal(shellWord(''), "''");
  });
});
