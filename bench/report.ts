/** The bench's report: bars that a person reads at a glance, as SVG by itself and in a page. Pure. */

type Figures = Readonly<Record<string, number>>;

interface Chart {
  readonly file: string;
  readonly title: string;
  readonly unit: string;
  /** Of figures: name in the results, and as it is written beside its bar. */
  readonly bars: readonly (readonly [string, string])[];
}

const charts: readonly Chart[] = [
  {
    file: 'throughput.svg',
    title: 'Writes a second, 1,000 endpoints',
    unit: '/s',
    bars: [
      ['ceiling at 127, writes/s', 'ceiling, 127 a transaction'],
      ['flapd, transitions/s', 'flapd, 127 a transaction'],
      ['ceiling at 5, writes/s', 'ceiling, 5 a transaction'],
      ['flapd at 5, transitions/s', 'flapd, 5 a transaction (default)'],
      ['putPerEvent, writes/s', 'put per event, 100 in flight'],
      ['felixSerial, writes/s', 'one after another, as Felix'],
    ],
  },
  {
    file: 'cpu.svg',
    title: 'CPU of each write, without etcd’s',
    unit: 'us',
    bars: [
      ['ceiling at 127, CPU us', 'ceiling, 127 a transaction'],
      ['flapd, CPU us', 'flapd, 127 a transaction'],
      ['flapd, 100000 endpoints, CPU us', 'flapd, 100,000 endpoints'],
      ['ceiling at 5, CPU us', 'ceiling, 5 a transaction'],
      ['flapd at 5, CPU us', 'flapd, 5 a transaction (default)'],
      ['putPerEvent, CPU us', 'put per event'],
      ['felixSerial, CPU us', 'one after another, as Felix'],
    ],
  },
  {
    file: 'latency.svg',
    title: 'Latency at 100 a second, median',
    unit: 'ms',
    bars: [
      ['bare put, p50 ms', 'a bare put'],
      ['flapd, p50 ms', 'flapd, from told to seen in etcd'],
    ],
  },
];

const width = 720;
const labelWidth = 260;
const barHeight = 22;
const gap = 8;
const top = 44;

/** By file name. A figure that was not measured has no bar. */
export function bars(figures: Figures): Record<string, string> {
  return Object.fromEntries(charts.map((chart) => [chart.file, svgOf(chart, figures)]));
}

function svgOf({ title, unit, bars: all }: Chart, figures: Figures): string {
  const rows = all.filter(([name]) => figures[name] !== undefined);
  const most = Math.max(...rows.map(([name]) => figures[name]!), Number.MIN_VALUE);
  const height = top + rows.length * (barHeight + gap);
  const parts = rows.map(([name, label], i) => {
    const figure = figures[name]!;
    const y = top + i * (barHeight + gap);
    const length = Math.max(1, Math.round((figure / most) * (width - labelWidth - 110)));
    const fill = label.startsWith('flapd') ? '#2b6cb0' : '#a0aec0';
    const text = figure >= 1000 ? Math.round(figure).toLocaleString('en') : String(figure);
    return (
      `<text x="${labelWidth - 8}" y="${y + 15}" text-anchor="end">${escapeXml(label)}</text>` +
      `<rect x="${labelWidth}" y="${y}" width="${length}" height="${barHeight}" fill="${fill}"/>` +
      `<text x="${labelWidth + length + 6}" y="${y + 15}">${text} ${unit}</text>`
    );
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="13">\n` +
    `<rect width="100%" height="100%" fill="#ffffff"/>\n` +
    `<text x="12" y="24" font-size="16" font-weight="bold">${escapeXml(title)}</text>\n${parts.join('\n')}\n</svg>\n`
  );
}

export interface Reported {
  readonly date: string;
  readonly node: string;
  readonly rounds: number;
  readonly figures: Figures;
  readonly rows: readonly {
    readonly name: string;
    readonly ratio: number;
    readonly target: number;
    readonly ok: boolean;
    readonly unit?: string;
  }[];
}

/** All in one file, to be opened in a browser. */
export function page({ date, node, rounds, rows, figures }: Reported): string {
  const lines = rows.map(
    ({ name, ratio, target, ok, unit }) =>
      `<tr><td>${escapeXml(name)}</td><td>${ratio} ${unit ?? ''}</td><td>${target}</td><td>${ok ? 'ok' : 'short'}</td></tr>`,
  );
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>flapd: bench</title>
<style>body{font-family:sans-serif;margin:2em}td,th{padding:2px 12px;text-align:left}</style>
<h1>flapd beside its baselines</h1>
<p>${date}, node ${node}, medians of ${rounds} rounds on one etcd.</p>
<table><tr><th>what</th><th>figure</th><th>target</th><th></th></tr>
${lines.join('\n')}
</table>
${Object.values(bars(figures)).join('\n')}
</html>
`;
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
