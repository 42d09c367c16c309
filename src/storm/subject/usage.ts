/** What a process has cost, as the kernel counts it (proc_pid_stat(5), proc_pid_status(5)). */
import { readFileSync } from 'node:fs';

export interface Usage {
  /** User and system time since it started. */
  readonly cpuMicros: number;
  /** The most memory it ever had. */
  readonly rssKiBMax: number;
}

/** USER_HZ, which is 100 on every architecture that node runs on: a tick is 10 ms. */
const tickMicros = 10_000;

/** Null where the process is gone. */
export function usageOf(pid: number): Usage | null {
  try {
    return parseUsage(readFileSync(`/proc/${pid}/stat`, 'utf8'), readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return null; // it ended meanwhile
  }
}

/** @param stat the text of /proc/PID/stat; the command's name in it may hold blanks and parentheses */
export function parseUsage(stat: string, status: string): Usage {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // Field 3 of the manual is the first one here: utime is field 14, stime field 15.
  const ticks = Number(fields[11]) + Number(fields[12]);
  return { cpuMicros: ticks * tickMicros, rssKiBMax: kiBIn(status, 'VmHWM') };
}

/** What it has at present. Throws where the process is gone. */
export function rssMiBOf(pid: number): number {
  return kiBIn(readFileSync(`/proc/${pid}/status`, 'utf8'), 'VmRSS') / 1024;
}

function kiBIn(status: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0);
}
