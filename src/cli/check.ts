/** `flapd check`: what would keep flapd from working here, and the way out of each. Changes nothing. */

import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Command, Option } from 'commander';
import { anyProblem, formatFindings } from '../check/finding.js';
import { type RoleUser, roleCommands, roleName } from '../check/role.js';
import { runChecks } from '../check/run.js';
import { felixSetting } from '../config/felix.js';
import type { SettingValues } from '../config/settings.js';
import { connectionOf } from '../daemon/connection.js';
import { ExitCode } from '../daemon/exit.js';
import { addSettingOptions, felixFileFrom, seconds, settingsFrom } from './options.js';

interface Options extends Record<string, unknown> {
  readonly json: boolean;
  readonly printRole: boolean;
  readonly sources: boolean;
  readonly watchSeconds: number;
}

const watchMsDefault = 2000;

export function checkCommand(): Command {
  const command = new Command('check').description(
    'checks configuration, etcd, permissions, TLS, netlink, journal: says what is wrong, and the way out',
  );
  return addSettingOptions(command, 'run')
    .option('--json', 'as one JSON object', false)
    .option('--sources', 'tell each setting that is set, and where', false)
    .addOption(
      new Option(
        '--watch-seconds <n>',
        "how long to watch this host's status keys for others that write them",
      )
        .argParser(seconds)
        .default(watchMsDefault, String(watchMsDefault / 1000)),
    )
    .option(
      '--print-role',
      'instead, print the etcdctl commands that make the smallest role for this host',
      false,
    )
    .addHelpText(
      'after',
      `
It changes nothing, and may be used while flapd runs: best as flapd's own user, and with its settings.
Exit codes: 0 fine (there may be warnings), 1 there are problems, 64 usage, 78 configuration. Each problem, and the way
out: docs/check.md.`,
    )
    .action(check);
}

async function check(options: Options): Promise<void> {
  const settings = settingsFrom(options, 'run');
  const { values } = settings;
  if (options.printRole) {
    printRole(values, options.json);
    return;
  }
  const findings = await runChecks({
    settings,
    connection: connectionOf(values),
    felixReporting: felixSetting(process.env, felixFileFrom(options), 'EndpointReportingEnabled'),
    watchMs: options.watchSeconds,
    withSources: options.sources,
  });
  const good = !anyProblem(findings);
  console.log(options.json ? JSON.stringify({ ok: good, findings }) : formatFindings(findings));
  if (!good) process.exitCode = ExitCode.failed;
}

function printRole(values: SettingValues, json: boolean): void {
  const user = roleUser(values);
  const commands = roleCommands(values, user);
  if (json) {
    console.log(JSON.stringify({ role: roleName(values.host), user: user.name, commands }));
    return;
  }
  console.log(`# to be run as etcd's root (ETCDCTL_USER=root ...), etcdctl auth enable once for all hosts`);
  for (const line of commands) console.log(line);
}

/** By the settings: a user with a password, else the one that the certificate names, else one to be made. */
function roleUser(values: SettingValues): RoleUser {
  const { 'etcd.user': user, 'etcd.passwordFile': passwordFile, 'etcd.certFile': certFile } = values;
  if (user !== null) return { name: user, proof: passwordFile === null ? 'typed' : 'file', passwordFile };
  const named = certFile === null ? null : commonName(certFile);
  return named === null
    ? { name: roleName(values.host), proof: 'typed', passwordFile: null }
    : { name: named, proof: 'certificate', passwordFile: null };
}

/** Null: the file is no use; flapd check says why. */
function commonName(certFile: string): string | null {
  try {
    return /^CN=(.+)$/m.exec(new X509Certificate(readFileSync(certFile)).subject)?.[1] ?? null;
  } catch {
    return null;
  }
}
