import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { Status } from '../../src/endpoints/status.js';
import { Certificates } from '../support/certificates.js';
import { type Etcd, startEtcd } from '../support/etcd.js';
import { Flapd } from '../support/flapd.js';
import { Feeder, History, keyOf, vm } from '../support/host.js';
import { until } from '../support/waiting.js';

const { up, down } = Status;

describe('the certificates of a running flapd', () => {
  const certificates = new Certificates();
  const path = (file: string) => certificates.path(file);
  /** What flapd is told to use. */
  const use = (name: string, parts: readonly string[] = ['pem', 'key']): void => {
    for (const part of parts) copyFileSync(path(`${name}.${part}`), path(`mine.${part}`));
  };
  let etcd: Etcd;
  let flapd: Flapd;
  let feeder: Feeder;
  let history: History;
  let port: number;
  let sent = 0;

  before(async () => {
    certificates.authority('old-ca');
    certificates.authority('new-ca');
    certificates.certificate('old-server', 'old-ca');
    certificates.certificate('old', 'old-ca');
    certificates.certificate('new-server', 'new-ca');
    certificates.certificate('new', 'new-ca');
    etcd = await startEtcd({ args: certificates.etcdArgs('old-server', 'old-ca') });
    port = etcd.port;
    use('old');
    copyFileSync(path('old-ca.pem'), path('ca.pem'));
    flapd = await Flapd.start({
      etcd: `https://127.0.0.1:${port}`,
      args: [
        ...['--endpoints-from=feed', '--set=limits.endpointDelay=0', '--set=reader.confirm=false'],
        `--set=etcd.caFile=${path('ca.pem')}`,
        ...[`--set=etcd.certFile=${path('mine.pem')}`, `--set=etcd.keyFile=${path('mine.key')}`],
      ],
    });
    await flapd.says('the feed socket is open');
    feeder = await Feeder.connect(flapd.feedSocket);
    history = watch('old', 'old-ca');
  });
  after(async () => {
    await flapd.stop();
    await history.close();
    await etcd.close();
    certificates.remove();
  });

  function watch(name: string, ca: string, fromRevision = 1): History {
    const files = { caFile: path(`${ca}.pem`), certFile: path(`${name}.pem`), keyFile: path(`${name}.key`) };
    return new History({ endpoints: [`https://127.0.0.1:${port}`], ...files }, fromRevision);
  }

  /** A fresh transition, which must come to be in etcd. */
  const report = async (): Promise<void> => {
    sent++;
    feeder.send(vm('tls'), sent % 2 === 1 ? up : down);
    await feeder.acknowledged();
  };

  it('are rotated on disk and taken up with SIGHUP, with another authority, without a restart', async () => {
    await report();
    await history.reaches(keyOf('tls'), 1);
    const notAfter = await flapd.metric('flapd_etcd_certificate_not_after_seconds');
    assert.ok(notAfter > Date.now() / 1000, `it expires at ${notAfter}`);

    // The server goes over to the new authority: whoever has the old certificate is locked out.
    await history.close();
    await etcd.restart({ args: certificates.etcdArgs('new-server', 'new-ca') });
    await report();
    await flapd.says('etcd does not take what is written');
    history = watch('new', 'new-ca');
    assert.deepEqual((await history.reaches(keyOf('tls'), 1)).slice(0, 1), ['up']);

    copyFileSync(path('new-ca.pem'), path('ca.pem'));
    use('new');
    flapd.kill('SIGHUP');
    await flapd.says('connected to etcd anew');
    assert.deepEqual(await history.reaches(keyOf('tls'), 2), ['up', 'down']);
    await flapd.ready();
    await report();
    assert.deepEqual(await history.reaches(keyOf('tls'), 3), ['up', 'down', 'up']);
  });

  it('half rotated, or no certificates at all, leave the old ones in use', async () => {
    use('old', ['key']);
    flapd.kill('SIGHUP');
    const said = await flapd.says('are no use as they are now');
    assert.match(String(said.error), /mine\.pem.*mine\.key cannot be used together/);
    await report();
    assert.deepEqual(await history.reaches(keyOf('tls'), 4), ['up', 'down', 'up', 'down']);
    use('new');
    flapd.kill('SIGHUP');
    await until(
      'the reload to be counted',
      async () => (await flapd.metric('flapd_config_reloads_total{result="ok"}')) >= 2,
    );
    await report();
    assert.equal((await history.reaches(keyOf('tls'), 5)).length, 5);
  });

  it('are taken up without a signal too, once they have changed', async () => {
    certificates.certificate('next', 'new-ca');
    const before = flapd.log.filter(({ msg }) => msg.includes('connected to etcd anew')).length;
    use('next');
    await until(
      'flapd to notice',
      () => flapd.log.filter(({ msg }) => msg.includes('connected to etcd anew')).length > before,
      { deadlineMs: 30_000 },
    );
    await report();
    assert.equal((await history.reaches(keyOf('tls'), 6)).length, 6);
    assert.equal(flapd.exitCode, null);
  });
});
