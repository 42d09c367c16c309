/** Writes the reference from the code: settings, metrics, commands. `npm run docs:reference` puts it into docs/. */
import type { Command } from 'commander';
import { buildProgram, commandNames } from '../../src/cli/commands.js';
import { variableName } from '../../src/config/environment.js';
import { felixNamesOf } from '../../src/config/felix.js';
import { definitions, type SettingName, settingNames } from '../../src/config/settings.js';
import { durationText, sizeText } from '../../src/config/values.js';
import { Metrics, type Readings } from '../../src/telemetry/metrics.js';

const generated = '<!-- Made from the code by `npm run docs:reference`: change it there. -->';

/** By file name, below docs/reference/. */
export async function reference(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ['settings.md', settingsReference()],
    ['metrics.md', await metricsReference()],
    ['commands.md', await commandsReference()],
  ]);
}

function settingsReference(): string {
  const rows = settingNames.map((name) => {
    const { kind, about, ...extra } = definitions[name] as {
      kind: { description?: string | undefined };
      about: string;
      reload?: boolean;
    };
    const felix = felixNamesOf.get(name)?.map((felixName) => `\`${felixName}\``) ?? [];
    const notes = [about, `*${kind.description}*`, ...(extra.reload ? ['Changes with SIGHUP.'] : [])];
    return row([`\`${name}\``, standardOf(name), notes.join('<br>'), felix.join(', ')]);
  });
  return `${generated}

# Settings

Each setting can be given, from the strongest to the weakest,

1. on the command line: \`--set NAME=VALUE\`, or an option of its own where there is one (\`flapd run --help\`);
2. in the environment: \`FLAPD_\` and the name in capitals, such as \`${variableName('limits.txnsPerSecond')}\` for \`limits.txnsPerSecond\`;
3. in \`/etc/flapd/flapd.yaml\` (or the file that \`--config\` or \`FLAPD_CONFIG\` names), as \`limits.txnsPerSecond: 100\` or nested;
4. as Felix's own setting, where it has one: \`FELIX_NAME\` in the environment, then \`/etc/calico/felix.cfg\`. Names have no case
   and sections do not matter there; what flapd does not know is left to Felix.

A duration is written \`500ms\`, \`10s\`, \`5m\` or \`1h\`; a bare number is seconds, as in Felix. A size is a number of bytes, or
\`512KiB\`, \`64MiB\`, \`1GiB\`. \`none\`, \`off\` or nothing at all means: none.

flapd does not start with a value that is not allowed, or a setting that does not exist: it lists all problems at once, each with
where it comes from, and ends with exit code 78.

${table(['setting', 'standard', 'what it is', "Felix's name"], rows)}`;
}

function standardOf(name: SettingName): string {
  const { kind, standard, ...extra } = definitions[name] as {
    kind: { meta(): Record<string, unknown> | undefined };
    standard: () => unknown;
    standardText?: string;
  };
  if (extra.standardText !== undefined) return extra.standardText;
  const value = standard();
  const unit = kind.meta()?.unit;
  if (value === null) return '`none`';
  if (typeof value === 'number' && unit === 'duration') return `\`${durationText(value)}\``;
  if (typeof value === 'number' && unit === 'size') return `\`${sizeText(value)}\``;
  if (value instanceof RegExp) return `\`${value.source}\``;
  if (Array.isArray(value)) return `\`${value.join(',')}\``;
  if (typeof value === 'object') return `\`${Object.values(value).join(':')}\``;
  return `\`${value}\``;
}

const nothing: Readings = {
  accepted: new Map(),
  ignored: new Map(),
  pending: 0,
  oldestPendingSeconds: 0,
  endpoints: new Map(),
  lanesInflight: 0,
  epoch: 0,
  etcdUp: false,
  txnRate: 0,
  netlink: { messages: 0, overruns: 0, malformed: 0, recoveredFlaps: 0 },
  frames: new Map(),
  sourcesInSync: new Map(),
  journalBytes: 0,
  journalAccepting: true,
  journalCutBytes: 0,
  workersReplaced: 0,
  foreignWrites: 0,
  datastore: { damages: 0, unreadable: 0 },
  certificateNotAfter: null,
};

async function metricsReference(): Promise<string> {
  const metrics = new Metrics(() => nothing, '');
  try {
    const described = await metrics.registry.getMetricsAsJSON();
    const labels = new Map(
      metrics.registry
        .getMetricsAsArray()
        .map((metric) => [metric.name, (metric as unknown as { labelNames: string[] }).labelNames]),
    );
    const rows = described
      .filter(({ name }) => name.startsWith('flapd_'))
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name, type, help }) =>
        row([`\`${name}\``, String(type), (labels.get(name) ?? []).map((l) => `\`${l}\``).join(', '), help]),
      );
    return `${generated}

# Metrics

\`flapd run\` serves them at \`/metrics\` (setting \`http\`), as Prometheus text or, where the scraper asks for it, as OpenMetrics.
There are no labels for endpoints: the number of series does not grow with them. Besides these there are the usual \`process_\` and
\`nodejs_\` metrics of prom-client.

${table(['metric', 'type', 'labels', 'what it is'], rows)}`;
  } finally {
    metrics.close();
  }
}

async function commandsReference(): Promise<string> {
  const program = await buildProgram(commandNames);
  const sections = [program, ...program.commands].map(
    (command) => `## ${command === program ? 'flapd' : `flapd ${command.name()}`}

\`\`\`text
${helpOf(command)}
\`\`\`
`,
  );
  return `${generated}

# Commands

${sections.join('\n')}`;
}

function helpOf(command: Command): string {
  let help = '';
  command.configureOutput({
    writeOut: (text) => {
      help += text;
    },
    getOutHelpWidth: () => 120,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return help.trim();
}

function table(titles: string[], rows: readonly string[]): string {
  return `${row(titles)}\n${row(titles.map(() => '---'))}\n${rows.join('\n')}\n`;
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}
