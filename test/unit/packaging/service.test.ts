import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { definitions } from '../../../src/config/settings.js';
import { ExitCode } from '../../../src/daemon/exit.js';
import { read } from '../../support/documents.js';

const lines = read('packaging/flapd.service').split('\n');

/** All values of a setting, in the order in which they stand. */
function values(name: string): string[] {
  return lines.filter((line) => line.startsWith(`${name}=`)).map((line) => line.slice(name.length + 1));
}

function standard(name: keyof typeof definitions): unknown {
  return (definitions[name] as { standard: () => unknown }).standard();
}

describe("systemd's unit", () => {
  it('does not start again where that cannot help or would fight over a host', () => {
    const never = values('RestartPreventExitStatus')[0]!.split(' ').map(Number);
    assert.deepEqual(never, [ExitCode.usage, ExitCode.journalDamaged, ExitCode.denied, ExitCode.config]);
    assert.deepEqual(values('SuccessExitStatus'), [String(ExitCode.backlog)]);
  });

  it('never gives up where starting again may help', () => {
    assert.deepEqual(values('Restart'), ['always']);
    assert.deepEqual(values('StartLimitIntervalSec'), ['0']);
    assert.ok(lines.indexOf('StartLimitIntervalSec=0') < lines.indexOf('[Service]'), 'it is one of [Unit]');
  });

  for (const [name, expected] of Object.entries({
    User: 'flapd',
    Group: 'flapd',
    UMask: '0077',
    CapabilityBoundingSet: '',
    AmbientCapabilities: '',
    NoNewPrivileges: 'yes',
    RestrictAddressFamilies: 'AF_UNIX AF_INET AF_INET6 AF_NETLINK',
    ProtectSystem: 'strict',
    ProtectHome: 'yes',
    PrivateTmp: 'yes',
    PrivateDevices: 'yes',
    PrivateMounts: 'yes',
    ProtectKernelTunables: 'yes',
    ProtectKernelModules: 'yes',
    ProtectControlGroups: 'yes',
    ProtectProc: 'invisible',
    RestrictNamespaces: 'yes',
    RestrictSUIDSGID: 'yes',
    LockPersonality: 'yes',
    SystemCallArchitectures: 'native',
    MemoryDenyWriteExecute: 'no', // V8 makes code at run time
    LimitCORE: '0',
    RuntimeDirectory: 'flapd',
    RuntimeDirectoryMode: '0750',
    StateDirectory: 'flapd',
    StateDirectoryMode: '0700',
  }))
    it(`has ${name}=${expected}, once`, () => assert.deepEqual(values(name), [expected]));

  it('takes nothing of the environment that changes what node does', () => {
    const unset = values('UnsetEnvironment')[0]!.split(' ');
    for (const name of ['NODE_OPTIONS', 'NODE_EXTRA_CA_CERTS', 'NODE_TLS_REJECT_UNAUTHORIZED'])
      assert.ok(unset.includes(name), name);
  });

  it('has the directories in which flapd puts its journal and its sockets', () => {
    assert.equal(standard('journal.dir'), '/var/lib/flapd/journal');
    for (const socket of ['feed.socket', 'driver.socket', 'admin.socket'] as const)
      assert.match(String(standard(socket)), /^\/run\/flapd\/\w+\.sock$/);
  });

  it('waits longer for the end than flapd drains, and reloads by SIGHUP', () => {
    assert.ok(Number(values('TimeoutStopSec')[0]) * 1000 > Number(standard('shutdown.drain')));
    assert.deepEqual(values('ExecReload'), ['/bin/kill -HUP $MAINPID']);
  });
});

describe('the buffer that sysctl grants', () => {
  it('is the one that flapd asks for', () => {
    const granted = /^net\.core\.rmem_max = (\d+)$/m.exec(read('packaging/sysctl.d/60-flapd.conf'));
    assert.equal(Number(granted![1]), standard('netlink.receiveBuffer'));
  });
});

describe("flapd's user and its directories", () => {
  const directories = read('packaging/tmpfiles.d/flapd.conf');

  it('are the ones of the unit', () => {
    assert.match(read('packaging/sysusers.d/flapd.conf'), /^u flapd - "[^"]+" \/var\/lib\/flapd$/m);
    for (const [directory, mode] of [
      ['/run/flapd', values('RuntimeDirectoryMode')[0]],
      ['/var/lib/flapd', values('StateDirectoryMode')[0]],
    ])
      assert.match(directories, new RegExp(`^d ${directory} ${mode} flapd flapd -$`, 'm'));
  });

  it('let root alone write the settings, and nobody else see them', () => {
    assert.match(directories, /^d \/etc\/flapd 0750 root flapd -$/m);
  });
});
