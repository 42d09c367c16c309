import { Command } from 'commander';
import { addSettingOptions, seconds, settingsFrom } from './options.js';
import { version } from './version.js';

export function runCommand(): Command {
  const command = new Command('run').description(
    'the daemon: reports every transition of this host into etcd',
  );
  addSettingOptions(command, 'run')
    .option('--for <seconds>', 'end by itself after so long', seconds)
    .addHelpText(
      'after',
      `
Every setting has a name for --set, a place in the file and a variable (FLAPD_...): docs/reference/settings.md.
Exit codes: 0 fine, 64 usage, 70 a bug, 71 system, 74 journal, 75 transitions left at the end, 77 another flapd
writes for this host, 78 configuration.`,
    )
    .action(async (options: Record<string, unknown> & { for?: number }) => {
      const settings = settingsFrom(options, 'run');
      const { runDaemon } = await import('../daemon/run.js');
      process.exitCode = await runDaemon(settings, {
        forMs: options.for ?? null,
        version: version(),
        reload: () => settingsFrom(options, 'run'),
      });
    });
  return command;
}
