/** Curves, in one panel or several side by side. Pure. */
import { linear, logarithmic, numberText, type Range, type Scale } from './scale.js';
import { element, picture, words } from './svg.js';

export interface LineChart {
  readonly kind: 'lines';
  readonly title: string;
  readonly x: { readonly label: string; readonly log: boolean };
  readonly panels: readonly Panel[];
}

export interface Panel {
  /** Of its y axis, with the unit. */
  readonly label: string;
  readonly log: boolean;
  readonly series: readonly Series[];
}

export interface Series {
  readonly curve: string;
  /** Of each point: what is drawn. */
  readonly field: string;
  readonly label: string;
  readonly color: string;
}

type Curves = Readonly<Record<string, readonly Readonly<Record<string, number>>[]>>;
type XY = readonly [x: number, y: number];

interface Drawn {
  readonly label: string;
  readonly color: string;
  readonly points: readonly XY[];
}

interface Frame {
  readonly x: Scale;
  readonly y: Scale;
  readonly xs: Range;
  readonly ys: Range;
}

const panelWidth = { alone: 760, beside: 470 };
const height = 360;
const margin = { left: 76, right: 24, top: 84, bottom: 52 };
/** Points closer than this are a line without marks. */
const marksMost = 20;

/**
 * Null where no point of it was measured. Panels whose y is logarithmic have the same y: they are there to be compared.
 */
export function drawLines(chart: LineChart, curves: Curves): string | null {
  const panels = chart.panels
    .map((panel) => ({
      panel,
      series: panel.series.map((one) => seriesOf(one, curves)).filter(({ points }) => points.length > 0),
    }))
    .filter(({ series }) => series.length > 0);
  if (panels.length === 0) return null;
  const width = panels.length === 1 ? panelWidth.alone : panelWidth.beside;
  const all = panels.flatMap(({ series }) => series.flatMap(({ points }) => points));
  const drawn = panels.flatMap(({ panel, series }, i) => {
    const points = panel.log ? all : series.flatMap((one) => one.points);
    const xs: Range = [i * width + margin.left, (i + 1) * width - margin.right];
    const ys: Range = [height - margin.bottom, margin.top];
    const frame: Frame = {
      xs,
      ys,
      x: scaleOf(
        points.map(([x]) => x),
        xs,
        chart.x.log,
        true,
      ),
      y: scaleOf(
        points.map(([, y]) => y),
        ys,
        panel.log,
        false,
      ),
    };
    return [...axes(frame, chart.x.label, panel.label), ...legend(series, xs[0]), ...lines(series, frame)];
  });
  return picture({ width: width * panels.length, height }, chart.title, drawn);
}

function seriesOf({ curve, field, label, color }: Series, curves: Curves): Drawn {
  const points = (curves[curve] ?? []).flatMap((point): XY[] => {
    const [x, y] = [point['x'], point[field]];
    return x === undefined || y === undefined ? [] : [[x, y]];
  });
  return { label, color, points };
}

function scaleOf(figures: readonly number[], range: Range, log: boolean, ownTicks: boolean): Scale {
  return log ? logarithmic(figures, range, ownTicks) : linear(figures, range);
}

function axes({ x, y, xs, ys }: Frame, xLabel: string, yLabel: string): string[] {
  const grey = { fill: '#4a5568' };
  const [left, right] = xs;
  const [bottom, top] = ys;
  return [
    ...y.ticks.flatMap((tick) => [
      element('line', { x1: left, x2: right, y1: y.toPixel(tick), y2: y.toPixel(tick), stroke: '#e2e8f0' }),
      words(left - 8, y.toPixel(tick) + 4, numberText(tick), { 'text-anchor': 'end', ...grey }),
    ]),
    ...x.ticks.flatMap((tick) => [
      element('line', {
        x1: x.toPixel(tick),
        x2: x.toPixel(tick),
        y1: bottom,
        y2: bottom + 5,
        stroke: '#4a5568',
      }),
      words(x.toPixel(tick), bottom + 18, numberText(tick), { 'text-anchor': 'middle', ...grey }),
    ]),
    element('line', { x1: left, x2: right, y1: bottom, y2: bottom, stroke: '#4a5568' }),
    words((left + right) / 2, bottom + 38, xLabel, { 'text-anchor': 'middle', ...grey }),
    words(left - 64, top - 14, yLabel, { 'font-weight': 'bold' }),
  ];
}

function legend(series: readonly Drawn[], left: number): string[] {
  let x = left - 64;
  return series.flatMap(({ label, color }) => {
    const at = x;
    x += 34 + label.length * 7;
    return [
      element('line', { x1: at, x2: at + 18, y1: 46, y2: 46, stroke: color, 'stroke-width': 3 }),
      words(at + 23, 50, label),
    ];
  });
}

function lines(series: readonly Drawn[], { x, y }: Frame): string[] {
  return series.flatMap(({ points, color }) => {
    const pixels = points.map(([px, py]): XY => [tenth(x.toPixel(px)), tenth(y.toPixel(py))]);
    const line = element('polyline', {
      points: pixels.map((pixel) => pixel.join(',')).join(' '),
      fill: 'none',
      stroke: color,
      'stroke-width': 2,
    });
    const marks = pixels.map(([cx, cy]) => element('circle', { cx, cy, r: 3.5, fill: color }));
    return pixels.length > marksMost ? [line] : [line, ...marks];
  });
}

function tenth(pixel: number): number {
  return Math.round(pixel * 10) / 10;
}
