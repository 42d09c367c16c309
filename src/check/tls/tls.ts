/** TLS as a whole: our files first, then what each endpoint shows; nothing where etcd is reached without it. */
import { deadlineMsDefault, type EtcdConnection, openConnection } from '../../etcd/connection.js';
import { anyProblem, type Finding } from '../finding.js';
import { checkFiles } from './files.js';
import { judgeHandshake, shakeHands } from './server.js';

export async function checkTls(connection: EtcdConnection): Promise<Finding[]> {
  const nowMs = Date.now();
  const findings = checkFiles(connection, nowMs);
  if (anyProblem(findings)) return findings;
  const { tls, targets, deadlineMs } = openConnection(connection);
  if (tls === null) return findings;
  const ca = connection.caFile ?? 'none of the authorities that node brings along';
  const shown = await Promise.all(
    targets.map(async (target, i) =>
      judgeHandshake(
        connection.endpoints[i]!,
        await shakeHands(target, tls, deadlineMs ?? deadlineMsDefault),
        ca,
        nowMs,
      ),
    ),
  );
  return [...findings, ...shown.flat()];
}
