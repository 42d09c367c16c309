/** The bench's report: pictures that a person reads at a glance, by themselves and on one page. Pure. */
import type { Machine, Result, Row } from '../result.js';
import { drawBars } from './bars.js';
import { charts } from './charts.js';
import { drawLines } from './lines.js';
import { escapeXml } from './svg.js';

/** By file name; of what was not measured there is none. */
export function pictures({ figures, curves }: Pick<Result, 'figures' | 'curves'>): Record<string, string> {
  const drawn = Object.entries(charts).map(([file, chart]) => [
    file,
    chart.kind === 'bars' ? drawBars(chart, figures) : drawLines(chart, curves),
  ]);
  return Object.fromEntries(drawn.filter(([, svg]) => svg !== null));
}

/** All in one file, to be opened in a browser. */
export function page(result: Result): string {
  const { date, rounds, scale, seconds, machine, rows } = result;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>flapd: bench</title>
<style>
body { font-family: sans-serif; margin: 2em; color: #1a202c; background: #ffffff }
td, th { padding: 3px 14px 3px 0; text-align: left; vertical-align: top }
td.number { text-align: right; white-space: nowrap }
.ok { color: #276749 } .short { color: #c53030; font-weight: bold }
svg { display: block; margin: 2em 0; max-width: 100%; height: auto }
</style>
<h1>flapd beside its baselines</h1>
<p>${escapeXml(date)}: medians of ${rounds} rounds on one etcd, ${seconds} s in all.
${escapeXml(machineText(machine))}.</p>
${scale < 1 ? `<p class="short">Only ${scale} of the work was done: the figures mean little.</p>\n` : ''}<table>
<tr><th>what</th><th>figure</th><th>rounds from, to</th><th>target</th><th></th><th></th></tr>
${rows.map(rowText).join('\n')}
</table>
${Object.values(pictures(result)).join('\n')}
</html>
`;
}

function rowText({ name, about, ratio, spread, target, ok, unit, why }: Row): string {
  const figure = ratio === null ? 'not measured' : `${ratio} ${unit ?? ''}`.trim();
  const cells = [
    `<td>${escapeXml(name)}</td>`,
    `<td class="number">${escapeXml(figure)}</td>`,
    `<td class="number">${spread === null ? '' : spread.join(' to ')}</td>`,
    `<td class="number">${target}</td>`,
    ok ? '<td class="ok">ok</td>' : '<td class="short">short</td>',
    `<td>${escapeXml(why === undefined ? about : `${about}: ${why}`)}</td>`,
  ];
  return `<tr>${cells.join('')}</tr>`;
}

function machineText({ cores, cpu, memoryGiB, kernel, node, etcd }: Machine): string {
  return `${cores} cores (${cpu}), ${memoryGiB} GiB, Linux ${kernel}, node ${node}, etcd ${etcd}`;
}
