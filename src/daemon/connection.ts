import type { SettingValues } from '../config/settings.js';
import type { EtcdConnection } from '../etcd/connection.js';

/** How to reach etcd, by the settings. */
export function connectionOf(values: SettingValues): EtcdConnection {
  const { 'etcd.caFile': caFile, 'etcd.certFile': certFile, 'etcd.keyFile': keyFile } = values;
  const { 'etcd.user': user, 'etcd.passwordFile': passwordFile } = values;
  return {
    endpoints: values['etcd.endpoints'],
    deadlineMs: values['etcd.deadline'],
    ...(caFile === null ? {} : { caFile }),
    ...(certFile === null ? {} : { certFile }),
    ...(keyFile === null ? {} : { keyFile }),
    ...(user === null ? {} : { user }),
    ...(passwordFile === null ? {} : { passwordFile }),
  };
}
