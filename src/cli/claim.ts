import { randomUUID } from 'node:crypto';
import { Command } from 'commander';
import { connectionOf } from '../daemon/connection.js';
import { CommandError, ExitCode } from '../daemon/exit.js';
import { claimKey, cursorKey } from '../endpoints/key.js';
import { takeClaim } from '../etcd/claim.js';
import { thisMachine } from '../etcd/machine.js';
import { parseClaim } from '../reporter/claim.js';
import { withEtcd } from './etcd.js';
import { addSettingOptions, settingsFrom } from './options.js';

export function claimCommand(): Command {
  const command = new Command('claim').description(
    'shows which flapd may write for a host, or takes the host over for this machine',
  );
  return addSettingOptions(command, 'etcd')
    .option('--take', 'take the host over, also from another machine: the flapd that has it stops', false)
    .option('--json', 'as one JSON object', false)
    .addHelpText(
      'after',
      `
Two machines with one host name would overwrite each other's statuses, so flapd does not take a host over from another
machine by itself. Where the other one is gone for good (the host was reinstalled), take it over once with --take, and
start flapd.`,
    )
    .action(claim);
}

async function claim(options: Record<string, unknown> & { take: boolean; json: boolean }): Promise<void> {
  const { values } = settingsFrom(options, 'etcd');
  const where = { host: values.host, region: values.region };
  const held = await withEtcd(connectionOf(values), async (client) => {
    if (options.take) {
      const taken = await takeClaim(client, {
        claimKey: claimKey(where),
        cursorKey: (lane) => cursorKey(where, lane),
        instance: randomUUID(),
        machine: thisMachine().name,
        lanes: values.lanes,
        startedAt: new Date().toISOString(),
        epoch: 0,
        take: true,
      });
      if (taken.kind !== 'claimed')
        throw new CommandError(ExitCode.unavailable, `the claim could not be taken: ${taken.message}`);
    }
    const value = await client.get(claimKey(where)).buffer();
    return value === null ? null : { claim: parseClaim(value) };
  });
  if (options.json) {
    console.log(JSON.stringify(held?.claim ?? null));
  } else if (held === null) {
    console.log(`no flapd has claimed ${values.host}`);
  } else if (held.claim === null) {
    console.log(`${claimKey(where)} holds something that is no claim this flapd can read`);
  } else {
    const { epoch, instance, machine, lanes, startedAt } = held.claim;
    const ours = machine === thisMachine().name ? 'this machine' : `machine ${machine}`;
    console.log(
      `${values.host}: epoch ${epoch}, ${ours}, instance ${instance}, ${lanes} lanes, since ${startedAt}`,
    );
  }
}
