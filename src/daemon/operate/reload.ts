/** What SIGHUP changes: of the settings that differ, those that may change in a running flapd. Pure. */
import { definitions, type SettingName, type SettingValues, settingNames } from '../../config/settings.js';

export interface Reload {
  /** What holds from now on. */
  readonly values: SettingValues;
  readonly changed: readonly SettingName[];
  /** These differ too, and wait for the next start. */
  readonly needRestart: readonly SettingName[];
}

export function reload(before: SettingValues, after: SettingValues): Reload {
  const differing = settingNames.filter((name) => !same(before[name], after[name]));
  const changed = differing.filter((name) => mayChange(name));
  const values = {
    ...before,
    ...Object.fromEntries(changed.map((name) => [name, after[name]])),
  } as SettingValues;
  return {
    values: Object.freeze(values),
    changed,
    needRestart: differing.filter((name) => !mayChange(name)),
  };
}

function mayChange(name: SettingName): boolean {
  return (definitions[name] as { reload?: boolean }).reload === true;
}

/** Values are texts, numbers, flags, expressions, and lists and records of these. */
function same(a: unknown, b: unknown): boolean {
  if (a instanceof RegExp && b instanceof RegExp) return String(a) === String(b);
  return JSON.stringify(a) === JSON.stringify(b);
}
