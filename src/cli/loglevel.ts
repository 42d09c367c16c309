import { Command } from 'commander';
import { logLevels } from '../daemon/operate/admin.js';
import { addAdminOptions, askDaemon } from './admin.js';

export function loglevelCommand(): Command {
  const command = new Command('loglevel')
    .description('shows what the running daemon logs, or changes it until its next start')
    .argument('[level]', logLevels.join(', '));
  return addAdminOptions(command).action(
    async (level: string | undefined, options: Record<string, unknown> & { json: boolean }) => {
      const answer =
        level === undefined
          ? await askDaemon<{ level: string }>(options, 'GET', '/log-level')
          : await askDaemon<{ level: string }>(options, 'PUT', '/log-level', level);
      console.log(options.json ? JSON.stringify(answer) : answer.level);
    },
  );
}
