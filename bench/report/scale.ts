/** From figures to pixels, and where an axis has its ticks. Pure. */

export interface Scale {
  readonly ticks: readonly number[];
  readonly toPixel: (figure: number) => number;
}

export type Range = readonly [from: number, to: number];

const ticksAbout = 5;

/** From 0, or from the least if that is below, to a round number at or above the most. */
export function linear(figures: readonly number[], [from, to]: Range): Scale {
  const most = Math.max(0, ...figures) || 1;
  const least = Math.min(0, ...figures);
  const step = roundStep((most - least) / ticksAbout);
  const [first, last] = [Math.floor(least / step), Math.ceil(most / step)];
  // Multiplied, not added up: 0.1 + 0.2 is no tick.
  const ticks = Array.from({ length: last - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)),
  );
  const [low, high] = [first * step, last * step];
  return { ticks, toPixel: (figure) => from + ((figure - low) / (high - low)) * (to - from) };
}

/** Ticks at the figures themselves, or at 1, 2 and 5 times powers of ten around them. */
export function logarithmic(figures: readonly number[], [from, to]: Range, ownTicks: boolean): Scale {
  const positive = figures.filter((figure) => figure > 0);
  const [least, most] = positive.length === 0 ? [1, 10] : [Math.min(...positive), Math.max(...positive)];
  const ticks = ownTicks ? [...new Set(positive)].sort((a, b) => a - b) : oneTwoFive(least, most);
  const [low, high] = [Math.log(ticks[0] ?? least), Math.log(ticks.at(-1) ?? most)];
  const middle = (from + to) / 2;
  return {
    ticks,
    toPixel: (figure) =>
      high === low
        ? middle
        : from + ((Math.log(Math.max(figure, Math.exp(low))) - low) / (high - low)) * (to - from),
  };
}

/** As a person writes it: 80,000; 12.3; 0.05. */
export function numberText(figure: number): string {
  return Math.abs(figure) >= 1000
    ? Math.round(figure).toLocaleString('en')
    : String(Number(figure.toPrecision(3)));
}

function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= step * 0.999)!;
  return factor * power;
}

function oneTwoFive(least: number, most: number): number[] {
  const first = Math.floor(Math.log10(least));
  const decades = Math.ceil(Math.log10(most)) - first + 1;
  const all = Array.from({ length: decades }, (_, i) =>
    [1, 2, 5].map((factor) => Number((factor * 10 ** (first + i)).toPrecision(1))),
  ).flat();
  const from = all.findLastIndex((tick) => tick <= least);
  const to = all.findIndex((tick) => tick >= most);
  return all.slice(Math.max(0, from), to + 1);
}
