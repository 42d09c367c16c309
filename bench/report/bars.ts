/** A bar for each figure, so that one sees how they stand to each other. Pure. */
import { linear, numberText } from './scale.js';
import { element, picture, words } from './svg.js';

export interface BarChart {
  readonly kind: 'bars';
  readonly title: string;
  readonly unit: string;
  readonly bars: readonly {
    /** Name in the results. */
    readonly figure: string;
    /** As it is written beside the bar. */
    readonly label: string;
    readonly color: string;
  }[];
}

const width = 760;
const left = 270;
const right = width - 90;
const top = 48;
const barHeight = 20;
const gap = 8;

/** Null where nothing of it was measured; one figure that was not has no bar. */
export function drawBars(chart: BarChart, figures: Readonly<Record<string, number>>): string | null {
  const bars = chart.bars.flatMap((bar) => {
    const figure = figures[bar.figure];
    return figure === undefined ? [] : [{ ...bar, value: figure }];
  });
  if (bars.length === 0) return null;
  const { ticks, toPixel } = linear(
    bars.map(({ value }) => value),
    [left, right],
  );
  const bottom = top + bars.length * (barHeight + gap);
  const axis = ticks.flatMap((tick) => [
    element('line', { x1: toPixel(tick), x2: toPixel(tick), y1: top - 6, y2: bottom, stroke: '#e2e8f0' }),
    words(toPixel(tick), bottom + 16, numberText(tick), { 'text-anchor': 'middle', fill: '#4a5568' }),
  ]);
  const drawn = bars.flatMap(({ value, label, color }, i) => {
    const y = top + i * (barHeight + gap);
    return [
      words(left - 8, y + 14, label, { 'text-anchor': 'end' }),
      element('rect', {
        class: 'bar',
        x: left,
        y,
        width: toPixel(value) - left,
        height: barHeight,
        fill: color,
      }),
      words(toPixel(value) + 6, y + 14, numberText(value), { 'font-weight': 'bold' }),
    ];
  });
  const unit = words((left + right) / 2, bottom + 36, chart.unit, {
    'text-anchor': 'middle',
    fill: '#4a5568',
  });
  return picture({ width, height: bottom + 48 }, chart.title, [...axis, ...drawn, unit]);
}
