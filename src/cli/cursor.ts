import { Command } from 'commander';
import { connectionOf } from '../daemon/connection.js';
import { claimKey, flapdPrefix } from '../endpoints/key.js';
import { listPrefix } from '../etcd/list.js';
import { parseClaim } from '../reporter/claim.js';
import { type Cursor, decodeCursor } from '../reporter/cursor.js';
import { withEtcd } from './etcd.js';
import { addSettingOptions, settingsFrom } from './options.js';

export function cursorCommand(): Command {
  const command = new Command('cursor').description(
    "shows a host's claim and its lanes' cursors, as they are in etcd",
  );
  return addSettingOptions(command, 'etcd')
    .option('--json', 'as one JSON object', false)
    .addHelpText(
      'after',
      `
A cursor says what is committed: everything of its lane up to ack, and of the endpoints in sack everything up to the
seq that stands with them. Endpoints are named by their numbers in the journal (flapd journal dump).`,
    )
    .action(show);
}

async function show(options: Record<string, unknown> & { json: boolean }): Promise<void> {
  const { values } = settingsFrom(options, 'etcd');
  const where = { host: values.host, region: values.region };
  const { keys } = await withEtcd(connectionOf(values), (client) => listPrefix(client, flapdPrefix(where)));
  const claimed = keys.find(({ key }) => key === claimKey(where));
  const claim = claimed === undefined ? null : parseClaim(claimed.value);
  const cursors = keys.flatMap(({ key, value, modRevision }) => {
    const lane = /\/lane\/(\d+)$/.exec(key)?.[1];
    return lane === undefined
      ? []
      : [{ lane: Number(lane), modRevision, bytes: value.length, cursor: decodeCursor(value) }];
  });
  if (options.json) {
    const plain = cursors.map(({ cursor, ...rest }) => ({
      ...rest,
      ...cursor,
      sack: Object.fromEntries(cursor.sack),
    }));
    console.log(JSON.stringify({ claim, cursors: plain }));
    return;
  }
  if (claim === null) {
    console.log(`no flapd has claimed ${values.host}`);
    return;
  }
  console.log(
    `claim   epoch ${claim.epoch}, instance ${claim.instance}, machine ${claim.machine}, ${claim.lanes} lanes, since ${claim.startedAt}`,
  );
  for (const { lane, modRevision, bytes, cursor } of cursors) {
    console.log(
      `lane ${lane}  transaction ${cursor.number}, revision ${modRevision}, ${bytes} bytes, ack ${cursor.ack}${sackText(cursor)}`,
    );
  }
}

function sackText({ sack }: Cursor): string {
  if (sack.size === 0) return '';
  const entries = [...sack].slice(0, 10).map(([endpoint, seq]) => `${endpoint}: ${seq}`);
  return `, sack ${entries.join(', ')}${sack.size > 10 ? ` and ${sack.size - 10} more` : ''}`;
}
