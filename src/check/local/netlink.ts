/** The kernel's news of interfaces: whether they come, into how large a buffer, and with carrier counters. */
import { sizeText } from '../../config/values.js';
import { dumpRequest, MessageParser } from '../../sources/netlink/messages.js';
import { Reader } from '../../sources/netlink/reader.js';
import { type Finding, fine, found } from '../finding.js';

export interface NetlinkSeen {
  readonly grantedBytes: number;
  readonly interfaces: number;
  /** Of those, without carrier counters. */
  readonly uncounted: number;
}

export interface NetlinkWanted {
  readonly receiveBufferBytes: number;
  readonly carrierCounters: boolean;
}

const dumpSeq = 1;

/** Opens the socket as the daemon does, and has the interfaces told once. */
export async function lookAtNetlink(
  { receiveBufferBytes }: NetlinkWanted,
  deadlineMs: number,
): Promise<NetlinkSeen | { readonly failed: string }> {
  let reader: Reader | null = null;
  const seen = await new Promise<NetlinkSeen | { readonly failed: string }>((resolve) => {
    const timer = setTimeout(
      () => resolve({ failed: `the kernel has not told the interfaces within ${deadlineMs} ms` }),
      deadlineMs,
    );
    const finish = (result: NetlinkSeen | { readonly failed: string }): void => {
      clearTimeout(timer);
      resolve(result);
    };
    let grantedBytes = 0;
    let interfaces = 0;
    let uncounted = 0;
    const parser = new MessageParser({
      link: (_type, { carrierUpCount }, answerTo) => {
        if (answerTo !== dumpSeq) return;
        interfaces++;
        if (Number.isNaN(carrierUpCount)) uncounted++;
      },
      address: () => undefined,
      done: (answerTo, errno) => {
        if (answerTo === dumpSeq)
          finish(errno === 0 ? { grantedBytes, interfaces, uncounted } : { failed: `errno ${errno}` });
      },
      interrupted: () => undefined,
      overrun: () => undefined,
      malformed: () => undefined,
    });
    let ownPort = 0;
    reader = new Reader(receiveBufferBytes, {
      open: (port, bufferBytes) => {
        ownPort = port;
        grantedBytes = bufferBytes;
        reader?.send(dumpRequest('links', dumpSeq));
      },
      message: (datagram) => parser.parse(datagram, ownPort),
      overrun: () => undefined,
      ended: (why) =>
        finish({
          failed: why === 'overrun' ? 'its buffer is too small for the interfaces there are' : why.message,
        }),
    });
  });
  await (reader as Reader | null)?.stop();
  return seen;
}

/** Pure. */
export function judgeNetlink(
  seen: NetlinkSeen | { readonly failed: string },
  wanted: NetlinkWanted,
): Finding[] {
  if ('failed' in seen)
    return [
      found(
        'netlink-failed',
        `the kernel gives no news of interfaces: ${seen.failed}`,
        'allow AF_NETLINK where a filter forbids it (systemd: RestrictAddressFamilies=AF_NETLINK ...; a seccomp profile)',
      ),
    ];
  const findings: Finding[] = [];
  const { receiveBufferBytes: asked } = wanted;
  if (seen.grantedBytes < asked)
    findings.push(
      found(
        'netlink-buffer',
        `the kernel grants a netlink buffer of ${sizeText(seen.grantedBytes)}, and ${sizeText(asked)} (netlink.receiveBuffer) were asked for: a storm of flaps may overrun it`,
        `sysctl -w net.core.rmem_max=${asked}\necho net.core.rmem_max=${asked} > /etc/sysctl.d/90-flapd.conf`,
      ),
    );
  if (wanted.carrierCounters && seen.uncounted > 0)
    findings.push(
      found(
        'netlink-counters',
        `${seen.uncounted} of ${seen.interfaces} interfaces have no carrier counters: flaps that the kernel merges cannot be recovered`,
        'Linux 4.16 or newer has them; netlink.carrierCounters: false to do without',
      ),
    );
  if (findings.length === 0)
    findings.push(
      fine('netlink', `${seen.interfaces} interfaces seen, a buffer of ${sizeText(seen.grantedBytes)}`),
    );
  return findings;
}
