/**
 * The etcd3 client, for everything off the hot path: the claim, lists, leases, checks.
 *
 * Its own retries and circuit breakers are off. They repeat a put whose answer was lost and report success
 * (measured: written twice), and a breaker that opened turns every call into an error for 5 s.
 * One retry remains that cannot be switched off, and is harmless: a call refused for its token is made once more with a new one.
 */
import { ConstantBackoff, noop } from 'cockatiel';
import { Etcd3, type IOptions } from 'etcd3';
import { channelOptions, type EtcdConnection, openConnection } from './connection.js';

/**
 * A client with its own connections. TLS and password files are read now: opening another one picks up rotated files.
 * Throws an EtcdConnectionError. It connects with its first call.
 */
export function openEtcd(connection: EtcdConnection): Etcd3 {
  const { tls, auth, deadlineMs } = openConnection(connection);
  const options: IOptions = {
    hosts: [...connection.endpoints],
    grpcOptions: channelOptions,
    defaultCallOptions: ({ isStream }) => (isStream ? {} : { deadline: Date.now() + deadlineMs }),
    faultHandling: { host: () => noop, global: noop, watchBackoff: new ConstantBackoff(500).next() },
  };
  if (tls !== null) {
    options.credentials = {
      rootCertificate: tls.ca,
      ...(tls.key !== null && tls.cert !== null && { privateKey: tls.key, certChain: tls.cert }),
    };
  }
  if (auth !== null) options.auth = { username: auth.name, password: auth.password };
  return new Etcd3(options);
}
