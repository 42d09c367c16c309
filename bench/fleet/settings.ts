/** The settings of every simulated host: each as it is without being set, but for the few that a fleet is tried with. */
import { definitions, isSettingName, type SettingValues, settingNames } from '../../src/config/settings.js';

/** By name, as they are meant: milliseconds, bytes, numbers. */
export type Overrides = Readonly<Record<string, number>>;

/** `name=value`, as in `flapd run --set`. Throws where there is no such setting, or it is no number. */
export function parseOverrides(texts: readonly string[]): Overrides {
  return Object.fromEntries(
    texts.map((text) => {
      const [name = '', ...value] = text.split('=');
      if (!isSettingName(name)) throw new Error(`--set ${text}: there is no setting ${name}`);
      const parsed = definitions[name].kind.safeParse(value.join('='));
      if (!parsed.success || typeof parsed.data !== 'number')
        throw new Error(`--set ${text}: a fleet is tried only with what is a number, within its bounds`);
      return [name, parsed.data];
    }),
  );
}

export function settingsWith(overrides: Overrides, where: { host: string; etcd: string }): SettingValues {
  const standard = Object.fromEntries(settingNames.map((name) => [name, definitions[name].standard()]));
  const { host, etcd } = where;
  return Object.freeze({
    ...standard,
    ...overrides,
    host,
    'etcd.endpoints': [etcd],
  }) as unknown as SettingValues;
}
