/** flapd as it is after an hour, and when it starts with all that etcd has already. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { openEtcd } from '../../src/etcd/client.js';
import type { Sizes } from '../sizes.js';
import type { Bed } from './bed.js';
import type { Samples } from './samples.js';
import { Subject, type SubjectOptions } from './subject.js';

const settings = { 'limits.txnsPerSecond': '50', 'txn.watchBytesMax': '0', 'reader.confirm': 'true' };

/** Of flapd, side by side: one start has 85 MiB, the next 91. */
const starts = 5;

export async function idleAndColdStart(bed: Bed, { idle, rounds }: Sizes, samples: Samples): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'flapd-bench-'));
  const fresh = (): SubjectOptions => ({ etcd: bed.etcd, host: bed.newHost(), endpoints: 1000, settings });
  const options = { ...fresh(), folder };
  const others = Array.from({ length: starts - 1 }, fresh);
  try {
    const subjects: Subject[] = [];
    for (const one of [options, ...others]) {
      const subject = await Subject.start(one);
      await subject.storm(1000);
      subjects.push(subject);
    }
    await delay(idle.afterSeconds * 1000); // V8 gives back what the start took
    const cpuBefore = subjects.map(({ flapd }) => flapd.cpuMicros);
    await delay(idle.seconds * 1000);
    for (const [n, { flapd }] of subjects.entries()) {
      samples.add('idle CPU', ((flapd.cpuMicros - cpuBefore[n]!) / (idle.seconds * 1_000_000)) * 100);
      samples.add('idle RSS', flapd.rssMiB);
    }
    await Promise.all(subjects.map((subject, n) => subject.stop({ keepFolder: n === 0 })));

    const client = openEtcd({ endpoints: [bed.etcd.endpoint] });
    const revision = async (): Promise<number> =>
      Number((await client.kv.range({ key: Buffer.from('x') })).header.revision);
    for (let round = 1; round <= rounds; round++) {
      const revisionBefore = await revision();
      const again = await Subject.start(options);
      samples.add('cold start', again.flapd.readyAfterMs);
      await again.tell(1000);
      await delay(2000);
      samples.add('cold start writes', (await revision()) - revisionBefore - 1); // the claim's
      await again.stop({ keepFolder: true });
    }
    client.close();
    bed.progress(
      `  idle: ${samples.medianOf('idle CPU')!.toFixed(2)} % of a core, ${samples.medianOf('idle RSS')!.toFixed(0)} MiB; cold start: ready after ${samples.medianOf('cold start')!.toFixed(0)} ms`,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
