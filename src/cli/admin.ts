/** What commands ask the running daemon, through its admin socket. */
import { request } from 'node:http';
import type { Command } from 'commander';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { addSettingOptions, settingsFrom } from './options.js';

const answerTimeoutMs = 10_000;

export function addAdminOptions(command: Command): Command {
  return addSettingOptions(command, 'etcd')
    .option('--socket <path>', "the daemon's admin socket, instead of the one that is configured")
    .option('--json', 'as one JSON object', false);
}

/** The answer as JSON. Throws a CommandError where there is no daemon to ask, or it cannot answer. */
export async function askDaemon<Answer>(
  options: Record<string, unknown>,
  method: 'GET' | 'PUT',
  path: string,
  body = '',
): Promise<Answer> {
  const socketPath =
    typeof options.socket === 'string'
      ? options.socket
      : settingsFrom(options, 'etcd').values['admin.socket'];
  if (socketPath === null)
    throw new CommandError(
      ExitCode.config,
      'the admin socket is switched off (admin.socket): there is nobody to ask',
    );
  const { status, text } = await send(socketPath, method, path, body);
  const answer = JSON.parse(text) as Answer & { error?: string };
  if (status === 503) throw new CommandError(ExitCode.unavailable, `flapd cannot tell: ${answer.error}`);
  if (status !== 200) throw new CommandError(ExitCode.usage, `flapd refuses: ${answer.error}`);
  return answer;
}

function send(
  socketPath: string,
  method: string,
  path: string,
  body: string,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, timeout: answerTimeoutMs }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    sent.on('timeout', () => sent.destroy(new Error(`no answer within ${answerTimeoutMs / 1000} s`)));
    sent.on('error', (error: NodeJS.ErrnoException) => reject(unanswered(socketPath, error)));
    sent.end(body);
  });
}

function unanswered(socketPath: string, error: NodeJS.ErrnoException): CommandError {
  const cause = { cause: error };
  if (error.code === 'EACCES')
    return new CommandError(
      ExitCode.denied,
      `${socketPath} is for the daemon's own user and root alone: try sudo`,
      cause,
    );
  const why =
    error.code === 'ENOENT' || error.code === 'ECONNREFUSED' ? 'no flapd listens there' : error.message;
  return new CommandError(
    ExitCode.unavailable,
    `cannot ask the daemon at ${socketPath}: ${why}. Is it running (flapd run)? Has it another socket (admin.socket, or --socket PATH)?`,
    cause,
  );
}
