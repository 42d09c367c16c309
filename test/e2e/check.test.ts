/** `flapd check` against set-ups that are really broken: it must name each problem, and a way out. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import type { FindingId } from '../../src/check/catalogue.js';
import type { Finding } from '../../src/check/finding.js';
import { claimKey, processStatusKeys } from '../../src/endpoints/key.js';
import { Status } from '../../src/endpoints/status.js';
import { freePort } from '../../src/etcd/embedded.js';
import { Certificates } from '../support/certificates.js';
import { type Ended, flapd, startFlapd } from '../support/command.js';
import { type Etcd, type EtcdVersion, etcdBinary, startCluster, startEtcd } from '../support/etcd.js';
import { Flapd, type FlapdOptions } from '../support/flapd.js';
import { Feeder, History, keyOf, vm, where } from '../support/host.js';
import { Tmpfs } from '../support/tmpfs.js';
import { until } from '../support/waiting.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-check-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** A set-up in which all is well, but for etcd. */
async function arguments_(...more: string[]): Promise<string[]> {
  return [
    'check',
    '--json',
    '--host=testhost',
    '--endpoints-from=interfaces',
    `--felix-config=${join(folder, 'no-felix.cfg')}`,
    `--journal=${join(folder, 'journal')}`,
    `--feed-socket=${join(folder, 'run', 'feed.sock')}`,
    `--http=127.0.0.1:${await freePort()}`,
    '--set=driver.socket=off',
    '--set=admin.socket=off',
    '--set=journal.maxSize=1MiB',
    '--set=netlink.receiveBuffer=64KiB',
    '--watch-seconds=0.1',
    ...more,
  ];
}

/** It ends with its test, however that ends. */
async function startDaemon(t: TestContext, options: FlapdOptions): Promise<Flapd> {
  const daemon = await Flapd.start(options);
  t.after(() => daemon.stop());
  return daemon;
}

/** Of a daemon that holds nothing back. */
const hurried = [
  '--endpoints-from=feed',
  '--journal=memory',
  '--set=limits.endpointDelay=0',
  '--set=limits.txnsPerSecond=0',
];

interface Checked {
  readonly code: number | null;
  readonly findings: readonly Finding[];
}

function parse({ code, stdout, stderr }: Ended): Checked {
  assert.ok(stdout.startsWith('{'), `no report: ${stderr}`);
  const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] };
  assert.equal(ok, code === 0, stdout);
  return { code, findings };
}

async function check(...more: string[]): Promise<Checked> {
  return parse(await flapd(await arguments_(...more)));
}

/** The finding with that id, whose way out says this; the exit code must fit. */
function finds({ code, findings }: Checked, id: FindingId, wayOut: RegExp): Finding {
  const finding = findings.find((one) => one.id === id);
  assert.ok(finding !== undefined, `no ${id} in ${JSON.stringify(findings, null, 1)}`);
  assert.match(finding.wayOut!, wayOut);
  if (finding.level === 'problem') assert.equal(code, 1);
  return finding;
}

function problems({ findings }: Checked): string[] {
  return findings.filter(({ level }) => level === 'problem').map(({ id, what }) => `${id}: ${what}`);
}

/** But for what is known against the version of etcd that tests run with. */
function complaints({ findings }: Checked): string[] {
  return findings
    .filter(({ level, id }) => level !== 'ok' && id !== 'etcd-version')
    .map(({ id, what }) => `${id}: ${what}`);
}

describe('flapd check, with a healthy etcd', () => {
  let etcd: Etcd;
  before(async () => {
    etcd = await startEtcd();
  });
  after(() => etcd.close());

  it('has nothing to complain about where nothing is wrong, and is the better for a running flapd', async (t) => {
    const empty = await check(`--etcd=${etcd.endpoint}`);
    assert.deepEqual(complaints(empty), []);
    assert.equal(empty.code, 0);
    const journal = join(folder, 'running');
    const daemon = await startDaemon(t, {
      etcd: etcd.endpoint,
      args: ['--endpoints-from=feed', `--journal=${journal}`],
    });
    await daemon.ready();
    const running = await check(
      `--etcd=${etcd.endpoint}`,
      `--journal=${journal}`,
      `--feed-socket=${daemon.feedSocket}`,
      `--http=127.0.0.1:${daemon.httpPort}`,
    );
    assert.deepEqual(complaints(running), []);
    const said = running.findings.map(({ what }) => what).join('\n');
    assert.match(said, new RegExp(`in use: flapd runs \\(pid ${daemon.pid}\\)`));
    assert.match(said, /is served by the flapd that runs/);
    assert.match(said, /testhost is this machine's, epoch 1/);
    assert.equal(await daemon.stop(), 0);
  });

  it('tells where each setting comes from, when asked', async () => {
    const { findings } = await check(`--etcd=${etcd.endpoint}`, '--sources');
    assert.ok(
      findings.some(({ what }) => what === 'endpoints.from = "interfaces" from the command line'),
      JSON.stringify(findings),
    );
  });

  it('is readable without --json as well, with its exit code', async () => {
    const args = (await arguments_(`--etcd=${etcd.endpoint}`, '--set=netlink.receiveBuffer=1GiB')).filter(
      (arg) => arg !== '--json',
    );
    const { code, stdout } = await flapd(args);
    assert.equal(code, 0);
    assert.match(stdout, /^OK +etcd +reachable: http:\/\/127.0.0.1/m);
    assert.match(stdout, /^WARNING +netlink .*\[netlink-buffer\]\n +way out: sysctl -w net.core.rmem_max=/m);
    assert.match(stdout, /^0 problems, \d warnings?$/m);
  });

  it('finds a netlink buffer that the kernel cuts (netlink-buffer)', async () => {
    const allowed = Number(readFileSync('/proc/sys/net/core/rmem_max', 'utf8'));
    assert.ok(allowed < 2 ** 30, 'this machine allows buffers of 1 GiB: it cannot show one that is cut');
    const checked = await check(`--etcd=${etcd.endpoint}`, '--set=netlink.receiveBuffer=1GiB');
    const { what } = finds(checked, 'netlink-buffer', /sysctl -w net\.core\.rmem_max=1073741824/);
    assert.match(what, /1GiB/);
    assert.equal(checked.code, 0, 'a warning');
  });

  it('finds a journal on a read-only file system, and one in memory (journal-directory, journal-tmpfs)', async () => {
    const tmpfs = new Tmpfs(2 ** 20);
    try {
      const journal = `--journal=${join(tmpfs.path, 'journal')}`;
      const inMemory = await check(`--etcd=${etcd.endpoint}`, journal, '--set=journal.maxSize=1GiB');
      finds(inMemory, 'journal-tmpfs', /journal\.dir/);
      finds(inMemory, 'journal-space', /journal\.maxSize/);
      assert.equal(inMemory.code, 0);
      tmpfs.readOnly();
      const checked = await check(`--etcd=${etcd.endpoint}`, journal);
      const { what } = finds(checked, 'journal-directory', /remount|--journal DIR/);
      assert.match(what, /read-only/);
    } finally {
      tmpfs.remove();
    }
  });

  it('finds a damaged journal (journal-damaged), and the way out that it names helps', async (t) => {
    const journal = join(folder, 'damaged');
    const args = ['--endpoints-from=feed', `--journal=${journal}`];
    const daemon = await startDaemon(t, { etcd: etcd.endpoint, args });
    await daemon.says('the feed socket is open');
    const feeder = await Feeder.connect(daemon.feedSocket);
    for (let n = 1; n <= 20; n++) feeder.send(vm(n), Status.up);
    await feeder.acknowledged();
    await feeder.end();
    assert.equal(await daemon.stop(), 0);
    const [segment] = readdirSync(journal).filter(
      (name) => name.endsWith('.seg') || /segment|\d{6}/.test(name),
    );
    truncateSync(join(journal, segment!), 10); // within its header
    const checked = await check(`--etcd=${etcd.endpoint}`, `--journal=${journal}`);
    const { wayOut } = finds(checked, 'journal-damaged', /flapd journal repair --dir /);
    const repair = /flapd (journal repair .*)$/.exec(wayOut!)![1]!;
    assert.equal((await flapd(repair.split(' '))).code, 0);
    assert.deepEqual(complaints(await check(`--etcd=${etcd.endpoint}`, `--journal=${journal}`)), []);
  });

  it('finds the HTTP port, and the feed socket, with another process (http-taken, socket-taken)', async () => {
    const server = createHttpServer((_, response) => response.end('something else'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const socket = join(folder, 'taken.sock');
    const other = createServer().listen(socket);
    try {
      const checked = await check(
        `--etcd=${etcd.endpoint}`,
        `--http=127.0.0.1:${(server.address() as AddressInfo).port}`,
        `--feed-socket=${socket}`,
      );
      finds(checked, 'http-taken', /--http HOST:PORT/);
      finds(checked, 'socket-taken', /feed\.socket/);
    } finally {
      server.close();
      other.close();
    }
  });

  it("finds a claim of another machine's, which has the same name (claim-other-machine)", async () => {
    const host = 'twin';
    etcd.ctl(
      'put',
      claimKey({ host, region: null }),
      '{"epoch":3,"instance":"i","machine":"another","lanes":4,"startedAt":"2026-01-01T00:00:00Z"}',
    );
    const checked = await check(`--etcd=${etcd.endpoint}`, `--host=${host}`);
    const { what } = finds(checked, 'claim-other-machine', /flapd claim --take/);
    assert.match(what, /machine another holds the claim of twin/);
    etcd.ctl('put', claimKey({ host, region: null }), 'nonsense');
    finds(await check(`--etcd=${etcd.endpoint}`, `--host=${host}`), 'claim-unreadable', /etcdctl get/);
  });

  it("finds Felix's own reporting, in felix.cfg and where Neutron's driver switches it on (felix-reports)", async () => {
    const felix = join(folder, 'felix.cfg');
    const args = [`--etcd=${etcd.endpoint}`, `--felix-config=${felix}`];
    writeFileSync(felix, '[global]\nEndpointReportingEnabled = True\n');
    const inFile = finds(await check(...args), 'felix-reports', /EndpointReportingEnabled = false/);
    assert.ok(inFile.what.includes(`EndpointReportingEnabled in ${felix}`), inFile.what);

    writeFileSync(felix, '[global]\n');
    const key = '/calico/resources/v3/projectcalico.org/felixconfigurations/default';
    const resource = { kind: 'FelixConfiguration', spec: { endpointReportingEnabled: true } };
    etcd.ctl('put', key, JSON.stringify(resource));
    const everywhere = finds(await check(...args), 'felix-reports', /restart Felix/);
    assert.ok(everywhere.what.includes(key), everywhere.what);

    writeFileSync(felix, '[global]\nEndpointReportingEnabled = false\n');
    assert.deepEqual(complaints(await check(...args)), [], 'the way out that it names');
    etcd.ctl('del', key);
  });

  it("finds who else writes this host's status keys, and does not take flapd for it (foreign-writes)", async (t) => {
    const daemon = await startDaemon(t, { etcd: etcd.endpoint, args: hurried });
    await daemon.says('the feed socket is open');
    const feeder = await Feeder.connect(daemon.feedSocket);
    const history = new History(etcd.endpoint);
    feeder.send(vm('own'), Status.up);
    await history.reaches(keyOf('own'), 1);
    const http = `--http=127.0.0.1:${daemon.httpPort}`;
    const running = startFlapd(await arguments_(`--etcd=${etcd.endpoint}`, http, '--watch-seconds=3'));
    let ended: Ended | null = null;
    void running.ended.then((result) => {
      ended = result;
    });
    // Both go on for as long as it looks: it cannot miss them.
    await until(
      'flapd check to end',
      () => {
        feeder.send(vm('own'), Status.down);
        feeder.send(vm('own'), Status.up);
        etcd.ctl('put', keyOf('foreign'), '{"status":"down"}');
        return ended;
      },
      { deadlineMs: 30_000, everyMs: 50 },
    );
    const checked = parse(ended!);
    const { what } = finds(checked, 'foreign-writes', /EndpointReportingEnabled = false/);
    assert.ok(what.includes(`${keyOf('foreign')} (`), what);
    assert.ok(!what.includes(keyOf('own')), what);
    await history.close();
    await feeder.end();
    await daemon.stop();
  });

  it('tells flapd at work from others where there are none', async (t) => {
    const daemon = await startDaemon(t, { etcd: etcd.endpoint, args: hurried });
    await daemon.says('the feed socket is open');
    const feeder = await Feeder.connect(daemon.feedSocket);
    const http = `--http=127.0.0.1:${daemon.httpPort}`;
    const running = startFlapd(await arguments_(`--etcd=${etcd.endpoint}`, http, '--watch-seconds=2'));
    let ended: Ended | null = null;
    void running.ended.then((result) => {
      ended = result;
    });
    await until(
      'flapd check to end',
      () => {
        for (let n = 1; n <= 5; n++) {
          feeder.send(vm(n), Status.down);
          feeder.send(vm(n), Status.up);
        }
        return ended;
      },
      { deadlineMs: 30_000, everyMs: 50 },
    );
    const { findings } = parse(ended!);
    const said = findings.find(({ what }) => what.includes("writes of flapd's own"));
    assert.match(said?.what ?? '', /^none within 2 s \([1-9]\d+ writes/, JSON.stringify(findings));
    await feeder.end();
    await daemon.stop();
  });

  it('ends with 78 where a setting is not allowed, such as a region that Neutron does not take', async () => {
    const { code, stderr } = await flapd(await arguments_('--region=Region-One', '--lanes=0'));
    assert.equal(code, 78);
    assert.match(stderr, /2 problems/);
    assert.match(stderr, /region from the command line: "Region-One" is not .*lower-case DNS label/);
    assert.match(stderr, /lanes from the command line/);
  });
});

describe('flapd check, with a broken etcd', () => {
  it('finds etcd down (etcd-unreachable), or one endpoint of two (etcd-member-unreachable)', async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const { what } = finds(await check(`--etcd=${nobody}`), 'etcd-unreachable', /start etcd/);
    assert.match(what, /ECONNREFUSED/);
    const etcd = await startEtcd();
    const checked = await check(`--etcd=${nobody},${etcd.endpoint}`);
    finds(checked, 'etcd-member-unreachable', /start etcd/);
    assert.deepEqual(problems(checked), []);
    await etcd.close();
  });

  it('finds an etcd that is frozen, within its deadline', async () => {
    const etcd = await startEtcd();
    etcd.kill('SIGSTOP');
    finds(
      await check(`--etcd=${etcd.endpoint}`, '--set=etcd.deadline=500ms'),
      'etcd-unreachable',
      /start etcd/,
    );
    await etcd.close();
  });

  it('finds a full etcd (etcd-no-space), and an old one (etcd-version)', async () => {
    const etcd = await startEtcd({ version: '3.4', args: ['--quota-backend-bytes=1'] });
    assert.throws(() => etcd.ctl('put', 'a', 'b'), /database space exceeded/);
    const checked = await check(`--etcd=${etcd.endpoint}`);
    finds(checked, 'etcd-no-space', /etcdctl alarm disarm/);
    const { what } = finds(checked, 'etcd-version', /upgrade etcd to 3\.4\.42/);
    assert.match(what, /etcd 3\.4\.23: .*stale/);
    await etcd.close();
  });

  it('finds two clusters that are taken for one (etcd-clusters-differ)', async () => {
    const [one, other] = [await startEtcd(), await startEtcd()];
    const checked = await check(`--etcd=${one.endpoint},${other.endpoint}`);
    finds(checked, 'etcd-clusters-differ', /one cluster alone/);
    await one.close();
    await other.close();
  });

  it('finds a cluster that has lost its majority (etcd-no-leader)', async () => {
    const members = await startCluster(3);
    const [survivor, ...others] = members;
    for (const member of others) member.kill('SIGKILL');
    await until('the survivor to know no leader', () => {
      const [status] = JSON.parse(survivor!.ctl('endpoint', 'status', '-w', 'json')) as [
        { Status: { leader?: number } },
      ];
      return (status.Status.leader ?? 0) === 0;
    });
    finds(await check(`--etcd=${survivor!.endpoint}`), 'etcd-no-leader', /start the missing members/);
    await Promise.all(members.map((member) => member.close()));
  });
});

describe('flapd check, with TLS', () => {
  const certificates = new Certificates();
  const caFile = certificates.path('authority.pem');
  let etcd: Etcd;
  before(async () => {
    certificates.authority('authority', { days: 60 });
    certificates.authority('stranger');
    etcd = await startTls('server');
  });
  after(async () => {
    await etcd.close();
    certificates.remove();
  });

  function issue(name: string, authority: string, options: { days?: number; ip?: string } = {}) {
    certificates.certificate(name, authority, { days: 30, ...options });
    return { cert: certificates.path(`${name}.pem`), key: certificates.path(`${name}.key`) };
  }
  function startTls(name: string, options: { days?: number; ip?: string } = {}, ...args: string[]) {
    const { cert, key } = issue(name, 'authority', options);
    return startEtcd({ args: [`--cert-file=${cert}`, `--key-file=${key}`, ...args] });
  }
  const with_ = (settings: Record<string, string>) =>
    Object.entries(settings).map(([name, value]) => `--set=etcd.${name}=${value}`);

  it('is content with a proper one', async () => {
    const client = issue('client', 'authority');
    const checked = await check(
      `--etcd=${etcd.endpoint}`,
      ...with_({ caFile, certFile: client.cert, keyFile: client.key }),
    );
    assert.deepEqual(complaints(checked), []);
    assert.match(checked.findings.map(({ what }) => what).join('\n'), /is whom we asked for, until /);
  });

  it('finds a CA that does not vouch for etcd (tls-authority)', async () => {
    const checked = await check(
      `--etcd=${etcd.endpoint}`,
      ...with_({ caFile: certificates.path('stranger.pem') }),
    );
    const { what } = finds(checked, 'tls-authority', /etcd\.caFile/);
    assert.match(what, /issued by CN=authority/);
  });

  it("finds a certificate that has expired, etcd's and our own, and one that will (tls-expired, tls-expires-soon)", async () => {
    const expired = await startTls('expired', { days: -1 });
    const server = await check(`--etcd=${expired.endpoint}`, ...with_({ caFile }));
    assert.match(finds(server, 'tls-expired', /issued anew/).what, /the certificate of https:/);
    await expired.close();
    const old = issue('old', 'authority', { days: -1 });
    const settings = { caFile, certFile: old.cert, keyFile: old.key };
    const own = await check(`--etcd=${etcd.endpoint}`, ...with_(settings));
    assert.match(
      finds(own, 'tls-expired', /in place of the old file/).what,
      /flapd's certificate in .*old\.pem/,
    );
    const soon = issue('soon', 'authority', { days: 5 });
    const warned = await check(
      `--etcd=${etcd.endpoint}`,
      ...with_({ caFile, certFile: soon.cert, keyFile: soon.key }),
    );
    finds(warned, 'tls-expires-soon', /issued anew/);
    assert.equal(warned.code, 0);
  });

  it('finds a certificate for another name (tls-name)', async () => {
    const elsewhere = await startTls('elsewhere', { ip: '192.0.2.1' });
    const checked = await check(`--etcd=${elsewhere.endpoint}`, ...with_({ caFile }));
    const { what } = finds(checked, 'tls-name', /etcd\.endpoints/);
    assert.match(what, /192\.0\.2\.1/);
    await elsewhere.close();
  });

  it("finds a key that is another certificate's, and a file that is missing (tls-pair, tls-file)", async () => {
    const [one, other] = [issue('one', 'authority'), issue('other', 'authority')];
    const pair = with_({ caFile, certFile: one.cert, keyFile: other.key });
    finds(await check(`--etcd=${etcd.endpoint}`, ...pair), 'tls-pair', /openssl/);
    const missing = with_({ caFile: certificates.path('nowhere.pem') });
    const { what } = finds(
      await check(`--etcd=${etcd.endpoint}`, ...missing),
      'tls-file',
      /correct the path/,
    );
    assert.match(what, /nowhere\.pem/);
  });

  it('finds that etcd wants a certificate of ours, of an authority that it knows (tls-refused)', async () => {
    const strict = await startTls('strict', {}, '--client-cert-auth', `--trusted-ca-file=${caFile}`);
    finds(await check(`--etcd=${strict.endpoint}`, ...with_({ caFile })), 'tls-refused', /etcd\.certFile/);
    const wrong = issue('wrong', 'stranger');
    const settings = with_({ caFile, certFile: wrong.cert, keyFile: wrong.key });
    finds(await check(`--etcd=${strict.endpoint}`, ...settings), 'tls-refused', /--trusted-ca-file/);
    await strict.close();
  });
});

for (const version of ['3.4', '3.5'] as const satisfies readonly EtcdVersion[]) {
  describe(`flapd check, with users and roles of etcd ${version}`, () => {
    const passwordFile = join(folder, `password-${version}`);
    let etcd: Etcd;
    const user = ['--set=etcd.user=flapd', `--set=etcd.passwordFile=${passwordFile}`];
    const asRoot = (...args: string[]) => etcd.ctl('--user=root:rootpw', ...args);
    before(async () => {
      writeFileSync(passwordFile, 'flapdpw\n');
      etcd = await startEtcd({ version });
      etcd.ctl('user', 'add', 'root:rootpw');
      etcd.ctl('user', 'grant-role', 'root', 'root');
      etcd.ctl('auth', 'enable');
    });
    after(() => etcd.close());

    /** As an operator would, in a shell. */
    const run = (commands: string) =>
      execFileSync('sh', ['-ec', commands], {
        encoding: 'utf8',
        stdio: 'pipe',
        env: {
          PATH: `${dirname(etcdBinary(version))}:${process.env.PATH}`,
          ETCDCTL_API: '3',
          ETCDCTL_ENDPOINTS: etcd.endpoint,
          ETCDCTL_USER: 'root:rootpw',
        },
      });

    it('finds that etcd wants a user, and a wrong password (etcd-authentication)', async () => {
      finds(await check(`--etcd=${etcd.endpoint}`), 'etcd-authentication', /etcd\.user/);
      const checked = await check(`--etcd=${etcd.endpoint}`, ...user);
      finds(checked, 'etcd-authentication', /etcdctl user passwd USER/);
    });

    it('prints the commands of the smallest role, with which flapd runs and check is content', async (t) => {
      for (const from of ['interfaces', 'calico']) {
        const printed = await flapd(await printRole(`--endpoints-from=${from}`));
        assert.equal(printed.code, 0, printed.stderr);
        // The second time only what is new is granted.
        run(from === 'calico' ? printed.stdout.replace(/^etcdctl (role|user) add.*$/gm, '') : printed.stdout);
        const checked = await check(`--etcd=${etcd.endpoint}`, ...user, `--endpoints-from=${from}`);
        assert.deepEqual(complaints(checked), []);
      }
      const daemon = await startDaemon(t, {
        etcd: etcd.endpoint,
        args: [
          '--endpoints-from=calico',
          `--journal=${join(folder, `role-${version}`)}`,
          '--set=driver.socket=off',
          '--set=admin.socket=off',
          '--set=reporting.processStatus=true',
          ...user,
        ],
      });
      await daemon.ready();
      await daemon.says('the feed socket is open');
      const feeder = await Feeder.connect(daemon.feedSocket);
      feeder.send(vm(1), Status.up);
      feeder.send({ kind: 'host', endpoint: 'eth0' }, Status.up);
      const history = new History({ endpoints: [etcd.endpoint], user: 'root', passwordFile: rootPassword() });
      await history.reaches(keyOf(1), 1);
      await history.reaches('/calico/felix/v1/host/testhost/endpoint/eth0', 1);
      for (const key of Object.values(processStatusKeys(where))) await history.reaches(key, 1);
      await history.close();
      await feeder.end();
      assert.equal(await daemon.stop(), 0, daemon.words);
    });

    it("gives that role nothing of another host's, whose name begins the same", () => {
      const asFlapd = (...args: string[]) => etcd.ctl('--user=flapd:flapdpw', ...args);
      const other = keyOf(1).replace('/testhost/', '/testhost2/');
      asFlapd('get', keyOf(1));
      assert.throws(() => asFlapd('get', other), /permission denied/);
      assert.throws(() => asFlapd('put', other, '{"status":"up"}'), /permission denied/);
      assert.throws(
        () => asFlapd('put', claimKey({ ...where, host: 'testhost2' }), 'x'),
        /permission denied/,
      );
    });

    it('finds what the role lacks (etcd-permission), and the way out that it names helps', async () => {
      const prefix = keyOf(1).slice(0, keyOf(1).indexOf('openstack'));
      asRoot('role', 'revoke-permission', 'flapd-testhost', prefix, '--prefix=true');
      const none = finds(
        await check(`--etcd=${etcd.endpoint}`, ...user),
        'etcd-permission',
        /etcdctl role grant-permission flapd-testhost readwrite/,
      );
      assert.ok(none.what.startsWith(`no permission to read and to write ${prefix}...`), none.what);
      asRoot('role', 'grant-permission', 'flapd-testhost', 'read', prefix, '--prefix=true');
      // Of the keys that it must write, the role reaches the first one alone.
      asRoot('role', 'grant-permission', 'flapd-testhost', 'write', prefix);
      const half = finds(await check(`--etcd=${etcd.endpoint}`, ...user), 'etcd-permission', /readwrite/);
      assert.ok(half.what.startsWith(`no permission to write ${prefix}...`), half.what);
      run(/etcdctl role grant-permission .*$/.exec(half.wayOut!)![0]);
      assert.deepEqual(complaints(await check(`--etcd=${etcd.endpoint}`, ...user)), []);
    });

    it('has changed nothing by all that', async () => {
      const revision = () =>
        (JSON.parse(asRoot('get', '/', '-w', 'json')) as { header: { revision: number } }).header.revision;
      const before = revision();
      await check(`--etcd=${etcd.endpoint}`, ...user);
      assert.equal(revision(), before);
    });

    async function printRole(...more: string[]): Promise<string[]> {
      const args = (await arguments_(...user, ...more)).filter((arg) => arg !== '--json');
      return [...args, '--print-role'];
    }

    function rootPassword(): string {
      const file = join(folder, 'root-password');
      writeFileSync(file, 'rootpw\n');
      return file;
    }
  });
}
