/** Checks of this machine, in a temporary directory. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Finding } from '../../../src/check/finding.js';
import { checkHttp } from '../../../src/check/local/http.js';
import { checkJournal, judgeSegments } from '../../../src/check/local/journal.js';
import { directoryState } from '../../../src/check/local/paths.js';
import { checkSockets } from '../../../src/check/local/sockets.js';
import { certificatesIn, judgeDates } from '../../../src/check/tls/certificates.js';
import { lockJournal } from '../../../src/journal/lock.js';
import { Certificates } from '../../support/certificates.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-check-local-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const path = (name: string) => join(folder, name);
const ids = (findings: readonly Finding[]) => findings.map(({ id }) => id);

describe('a directory', () => {
  it('is there, can be made, or is no use, and nothing is made of it', () => {
    assert.deepEqual(directoryState(folder), { kind: 'there' });
    assert.deepEqual(directoryState(path('a/b/c')), { kind: 'creatable', below: folder });
    assert.deepEqual(directoryState(path('a')), { kind: 'creatable', below: folder });
    writeFileSync(path('file'), '');
    assert.equal(directoryState(path('file')).kind, 'unusable');
    assert.equal(directoryState(path('file/below')).kind, 'unusable');
  });
});

describe('the journal', () => {
  const report = { number: 1, bytes: 0, blocks: 0, firstSeq: 0, lastSeq: 0, transitions: 0 };

  it('may be none, with a warning', () => {
    assert.deepEqual(ids(checkJournal({ directory: null, bytesMax: 1 }).findings), ['journal-memory']);
  });

  it('is warned of where others may write it', () => {
    const directory = path('open');
    mkdirSync(directory);
    chmodSync(directory, 0o777);
    assert.ok(ids(checkJournal({ directory, bytesMax: 1 }).findings).includes('journal-rights'));
    chmodSync(directory, 0o700);
    assert.ok(!ids(checkJournal({ directory, bytesMax: 1 }).findings).includes('journal-rights'));
  });

  it('is in use where a process has it, and asking does not take it away', () => {
    const directory = path('held');
    mkdirSync(directory, { mode: 0o700 });
    assert.equal(checkJournal({ directory, bytesMax: 1 }).running, false);
    const unlock = lockJournal(directory);
    assert.equal(checkJournal({ directory, bytesMax: 1 }).running, true);
    assert.throws(() => lockJournal(directory), /locked by pid/);
    unlock();
    assert.equal(checkJournal({ directory, bytesMax: 1 }).running, false);
    lockJournal(directory)();
  });

  it('is judged by its segments: a torn tail is none of its problems', () => {
    const judge = (state: 'good' | 'torn' | 'damaged' | 'newer' | 'missing') =>
      ids(judgeSegments([{ ...report, file: 'f', state, badAt: 7 }], '/dir'));
    assert.deepEqual(judge('good'), []);
    assert.deepEqual(judge('torn'), []);
    assert.deepEqual(judge('damaged'), ['journal-damaged']);
    assert.deepEqual(judge('missing'), ['journal-damaged']);
    assert.deepEqual(judge('newer'), ['journal-newer']);
  });
});

describe('sockets', () => {
  it('are a problem in a directory that cannot be made, on a path that is something else, for a group that is none', async () => {
    writeFileSync(path('plain'), '');
    const check = (socket: string, group: string | null = null) =>
      checkSockets([{ setting: 'feed.socket', path: socket }], group, false).then(ids);
    assert.deepEqual(await check(path('plain/sock')), ['socket-directory']);
    assert.deepEqual(await check(path('plain')), ['socket-taken']);
    assert.deepEqual(await check(path('sock'), 'no-such-group'), ['socket-group']);
    assert.deepEqual(await check(path('sock')), [null]);
  });
});

describe('HTTP', () => {
  it('is a problem on an address that this machine has not', async () => {
    const { findings } = await checkHttp({ host: '192.0.2.1', port: 9889 });
    assert.deepEqual(ids(findings), ['http-address']);
  });

  it('may be off', async () => {
    assert.deepEqual(ids((await checkHttp(null)).findings), [null]);
  });
});

describe('the dates of a certificate', () => {
  const certificates = new Certificates();
  certificates.authority('authority');
  certificates.certificate('dated', 'authority', { days: 30 });
  const cert = certificates.path('dated.pem');
  after(() => certificates.remove());
  const certificate = certificatesIn(readFileSync(cert))[0]!;
  const [from, to] = [Date.parse(certificate.validFrom), Date.parse(certificate.validTo)];
  const day = 24 * 60 * 60_000;
  const judge = (nowMs: number) => ids(judgeDates(certificate, 'it', true, nowMs));

  it('are judged by the clock', () => {
    assert.deepEqual(judge(from - 1), ['tls-not-yet-valid']);
    assert.deepEqual(judge(from), []);
    assert.deepEqual(judge(to - 15 * day), []);
    assert.deepEqual(judge(to - 13 * day), ['tls-expires-soon']);
    assert.deepEqual(judge(to + 1), ['tls-expired']);
  });

  it('are read of each certificate in a file', () => {
    const both = Buffer.concat([readFileSync(cert), readFileSync(certificates.path('authority.pem'))]);
    assert.deepEqual(
      certificatesIn(both).map(({ subject }) => subject),
      ['CN=dated', 'CN=authority'],
    );
    assert.ok(certificatesIn(both)[0] instanceof X509Certificate);
    assert.throws(() => certificatesIn(Buffer.from('nothing')), /no certificate in it/);
  });
});
