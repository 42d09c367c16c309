/** Settings from the environment: FLAPD_LIMITS_TXNS_PER_SECOND for limits.txnsPerSecond. */
import type { Layer } from './layer.js';
import { quote } from './redact.js';
import { type SettingName, settingNames } from './settings.js';
import { didYouMean } from './suggest.js';

/** Variables that flapd and its scripts use for something else. */
const otherVariables = new Set([
  'FLAPD_ETCD',
  'FLAPD_ETCD_34',
  'FLAPD_ETCD_35',
  'FLAPD_CACHE',
  'FLAPD_FAULTS',
  'FLAPD_CONFIG',
]);

export function variableName(name: SettingName): string {
  return `FLAPD_${name
    .replaceAll('.', '_')
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toUpperCase()}`;
}

const names: ReadonlyMap<string, SettingName> = new Map(
  settingNames.map((name) => [variableName(name), name]),
);

export function fromEnvironment(env: NodeJS.ProcessEnv, problems: string[]): Layer {
  const layer: Layer = new Map();
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith('FLAPD_') || value === undefined || otherVariables.has(variable)) continue;
    const name = names.get(variable);
    if (name !== undefined) layer.set(name, { value, source: `${variable} in the environment` });
    else
      problems.push(
        `${quote(variable)} in the environment is no setting${didYouMean(variable, [...names.keys()])}`,
      );
  }
  return layer;
}
