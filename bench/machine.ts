import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { findEtcdBinary } from '../src/etcd/embedded.js';
import type { Machine } from './result.js';

/** Where the figures are from: enough to know which ones may be set side by side. */
export function thisMachine(): Machine {
  const said = execFileSync(findEtcdBinary(), ['--version'], { encoding: 'utf8' });
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model.trim() ?? '',
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.version,
    etcd: /etcd Version: (\S+)/.exec(said)?.[1] ?? '',
  };
}
