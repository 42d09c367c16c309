/** How to reach etcd: the settings, read once for each client, so that a client opened anew has the newest files. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, rootCertificates } from 'node:tls';
import type { ChannelOptions } from '@grpc/grpc-js';

export interface EtcdConnection {
  /** `http://host:port` or `https://host:port`, all of one scheme. */
  readonly endpoints: readonly string[];
  /** PEM. Without it, the certificate authorities that node brings along are trusted. */
  readonly caFile?: string;
  /** PEM, both or none: the client's certificate and its key. */
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly user?: string;
  readonly passwordFile?: string;
  /** For every single call. etcd and etcd3 have none of their own: a call to a frozen server would never end. */
  readonly deadlineMs?: number;
}

export const deadlineMsDefault = 2000;

export class EtcdConnectionError extends Error {
  readonly code:
    | 'ETCD_ENDPOINT_INVALID'
    | 'ETCD_FILE_UNREADABLE'
    | 'ETCD_CREDENTIALS_INCOMPLETE'
    | 'ETCD_CREDENTIALS_UNUSABLE';

  constructor(code: EtcdConnectionError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EtcdConnectionError';
    this.code = code;
  }
}

/** The settings with the contents of the files they name. Holds secrets: never to be logged. */
export interface OpenedConnection {
  /** `host:port`, as gRPC wants it. */
  readonly targets: readonly string[];
  readonly tls: {
    readonly ca: Buffer;
    readonly cert: Buffer | null;
    readonly key: Buffer | null;
  } | null;
  readonly auth: { readonly name: string; readonly password: string } | null;
  readonly deadlineMs: number;
}

/** Throws an EtcdConnectionError for settings that cannot work, or a file that cannot be read. */
export function openConnection(connection: EtcdConnection): OpenedConnection {
  const { endpoints, deadlineMs = deadlineMsDefault } = connection;
  if (endpoints.length === 0)
    throw new EtcdConnectionError(
      'ETCD_ENDPOINT_INVALID',
      'no etcd endpoint is set; name one at least, such as http://127.0.0.1:2379',
    );
  const parsed = endpoints.map(parseEndpoint);
  const secure = parsed[0]!.secure;
  if (parsed.some((endpoint) => endpoint.secure !== secure))
    throw new EtcdConnectionError(
      'ETCD_ENDPOINT_INVALID',
      `etcd endpoints of both http and https: ${endpoints.join(', ')}; use one scheme for all`,
    );
  return {
    targets: parsed.map(({ target }) => target),
    tls: secure ? readTls(connection) : null,
    auth: readAuth(connection),
    deadlineMs,
  };
}

/** The same for the same settings and contents of files; tells nothing of either. */
export function fingerprint(opened: OpenedConnection): string {
  const { tls } = opened;
  const contents = [tls?.ca, tls?.cert, tls?.key].map((content) => content?.toString('base64') ?? null);
  return createHash('sha256')
    .update(JSON.stringify([opened.targets, opened.auth, opened.deadlineMs, contents]))
    .digest('hex');
}

/** Options of every gRPC channel to etcd. */
export const channelOptions: ChannelOptions = {
  // A peer that vanished without a word is noticed after 15 s. More often than every 5 s, or without calls, etcd
  // takes pings for an attack and hangs up (its --grpc-keepalive-min-time).
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5_000,
  // grpc-js waits up to 120 s between attempts by default: etcd would be back for two minutes before anyone looked.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
  // When to send again is decided in one place (reporter/), never below it.
  'grpc.enable_retries': 0,
  // A watch that catches up, or a page of large values, exceeds the default of 4 MiB.
  'grpc.max_receive_message_length': -1,
  'grpc.max_send_message_length': -1,
  // A client opened anew must connect anew, with the new certificates.
  'grpc.use_local_subchannel_pool': 1,
  // etcd is on the hypervisors' own network: a proxy set for the shell is not meant for it.
  'grpc.enable_http_proxy': 0,
};

function parseEndpoint(endpoint: string): { target: string; secure: boolean } {
  const match = /^(https?):\/\/(\[[0-9a-f:.]+\]|[^:/?#@\s]+)(?::(\d{1,5}))?\/?$/i.exec(endpoint.trim());
  if (match === null || Number(match[3] ?? 0) > 65_535)
    throw new EtcdConnectionError(
      'ETCD_ENDPOINT_INVALID',
      `etcd endpoint ${JSON.stringify(endpoint)} is not of the form http://host:port or https://host:port`,
    );
  return { target: `${match[2]}:${match[3] ?? '2379'}`, secure: match[1]!.toLowerCase() === 'https' };
}

function readTls({ caFile, certFile, keyFile }: EtcdConnection): OpenedConnection['tls'] {
  if ((certFile === undefined) !== (keyFile === undefined))
    throw new EtcdConnectionError(
      'ETCD_CREDENTIALS_INCOMPLETE',
      `etcd's client ${certFile === undefined ? 'key' : 'certificate'} is set without its ${certFile === undefined ? 'certificate' : 'key'}; set both or none`,
    );
  const tls = {
    ca:
      caFile === undefined ? Buffer.from(rootCertificates.join('\n')) : read(caFile, "etcd's CA certificate"),
    cert: certFile === undefined ? null : read(certFile, "etcd's client certificate"),
    key: keyFile === undefined ? null : read(keyFile, "etcd's client key"),
  };
  try {
    const { ca, cert, key } = tls;
    createSecureContext({ ca, ...(cert !== null && key !== null && { cert, key }) });
  } catch (cause) {
    const files = [caFile, certFile, keyFile].filter((file) => file !== undefined).join(', ');
    throw new EtcdConnectionError(
      'ETCD_CREDENTIALS_UNUSABLE',
      `${files} cannot be used together: ${cause instanceof Error ? cause.message : cause}; they must be PEM, and the key the certificate's own`,
      { cause },
    );
  }
  return tls;
}

function readAuth({ user, passwordFile }: EtcdConnection): OpenedConnection['auth'] {
  if (user === undefined && passwordFile === undefined) return null;
  if (user === undefined || passwordFile === undefined)
    throw new EtcdConnectionError(
      'ETCD_CREDENTIALS_INCOMPLETE',
      `etcd's ${user === undefined ? 'password file is set without a user' : 'user is set without a password file'}; set both or none`,
    );
  const password = read(passwordFile, "etcd's password")
    .toString('utf8')
    .replace(/\r?\n$/, '');
  return { name: user, password };
}

function read(path: string, what: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    const wayOut =
      code === 'EACCES'
        ? "give flapd's user read access to it"
        : code === 'ENOENT'
          ? 'correct the path, or put the file there'
          : 'check the path';
    throw new EtcdConnectionError(
      'ETCD_FILE_UNREADABLE',
      `cannot read ${what} from ${path}: ${code ?? cause}; ${wayOut}`,
      { cause },
    );
  }
}
