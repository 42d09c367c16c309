import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Curves } from '../../../bench/curves/curves.js';
import { targets } from '../../../bench/macro/targets.js';
import { charts } from '../../../bench/report/charts.js';
import { page, pictures } from '../../../bench/report/report.js';
import { linear, logarithmic, numberText } from '../../../bench/report/scale.js';
import { element, escapeXml, words } from '../../../bench/report/svg.js';
import type { Result } from '../../../bench/result.js';

const noCurves: Curves = {
  endpoints: [],
  operations: [],
  watchBytes: [],
  lanes: [],
  workers: [],
  latency: [],
  latencyOfBarePuts: [],
  drain: [],
};

const storms = [
  { x: 10, y: 3000, cpuMicros: 100, rssMiB: 90 },
  { x: 1000, y: 40_000, cpuMicros: 12, rssMiB: 120 },
];
const latencies = [
  { x: 10, y: 2, p50: 2, p90: 3, p99: 6, max: 12 },
  { x: 1000, y: 4, p50: 4, p90: 7, p99: 30, max: 55 },
];
const curves: Curves = {
  endpoints: storms,
  operations: storms,
  watchBytes: storms,
  lanes: storms,
  workers: storms,
  latency: latencies,
  latencyOfBarePuts: latencies,
  drain: [
    { x: -0.4, y: 0, accepted: 0 },
    { x: 0, y: 1000, accepted: 1000 },
    { x: 2.5, y: 0, accepted: 1500 },
  ],
};

const figures = Object.fromEntries(
  Object.values(charts).flatMap((chart) =>
    chart.kind === 'bars' ? chart.bars.map(({ figure }, i) => [figure, 10 * (i + 1)]) : [],
  ),
);

const result: Result = {
  date: '2026-01-01T00:00:00.000Z',
  machine: { cores: 2, cpu: 'A & B', memoryGiB: 8, kernel: '6.1', node: 'v20', etcd: '3.5.16' },
  rounds: 3,
  scale: 1,
  seconds: 600,
  rows: [],
  figures,
  curves,
};

const bars = (svg: string): number[] =>
  [...svg.matchAll(/<rect class="bar"[^>]* width="([\d.]+)"/g)].map(([, width]) => Number(width));

const dots = (svg: string): { cx: number; cy: number }[] =>
  [...svg.matchAll(/<circle cx="([\d.-]+)" cy="([\d.-]+)"/g)].map(([, cx, cy]) => ({
    cx: Number(cx),
    cy: Number(cy),
  }));

/** Throws where it is no XML: elements closed in order, attributes quoted, no bare & or <. */
function assertWellFormed(xml: string): void {
  const open: string[] = [];
  let rest = xml.trim();
  let roots = 0;
  while (rest !== '') {
    const [whole, text, close, name, , empty] =
      /^([^<]*)<(\/?)([\w-]+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/.exec(rest) ?? [];
    assert.ok(whole !== undefined && name !== undefined, `no XML: ${rest.slice(0, 80)}`);
    assert.doesNotMatch(whole, /&(?!(#\d+|amp|lt|gt|quot);)/);
    if (open.length === 0) {
      assert.equal(text?.trim(), '');
      roots++;
    }
    if (close === '/') assert.equal(open.pop(), name);
    else if (empty === '') open.push(name);
    rest = rest.slice(whole.length);
  }
  assert.deepEqual({ open, roots }, { open: [], roots: 1 });
}

describe("the bench's pictures", () => {
  it('are all there and well-formed when everything was measured', () => {
    const all = pictures(result);
    assert.deepEqual(Object.keys(all), Object.keys(charts));
    for (const svg of Object.values(all)) {
      assertWellFormed(svg);
      assert.doesNotMatch(svg, /NaN|Infinity|undefined/);
    }
  });

  it('show each figure in proportion, with its number beside it', () => {
    const svg = pictures({
      figures: { 'ceiling at 127, writes/s': 80_000, 'flapd, transitions/s': 40_000 },
      curves: noCurves,
    })['throughput.svg']!;
    const [ceiling, flapd, ...others] = bars(svg);
    assert.deepEqual(others, []);
    assert.equal(ceiling, 2 * flapd!);
    assert.match(svg, />80,000<.*>40,000</s);
  });

  it('have no bar for a figure that was not measured, and are not drawn where nothing was', () => {
    assert.deepEqual(pictures({ figures: {}, curves: noCurves }), {});
    const one = pictures({ figures: { 'flapd, CPU us': 10 }, curves: noCurves });
    assert.deepEqual(Object.keys(one), ['cpu.svg']);
    assert.equal(bars(one['cpu.svg']!).length, 1);
  });

  it('have a mark for each point, more to the right and further up for more', () => {
    const svg = pictures({ figures: {}, curves: { ...noCurves, endpoints: storms } })['endpoints.svg']!;
    const [first, second, , ...rest] = dots(svg);
    assert.equal(rest.length, 1); // two panels of two points
    assert.ok(second!.cx > first!.cx && second!.cy < first!.cy);
    assert.match(svg, />10<.*>1,000</s);
    assert.match(svg, />endpoints</);
    assert.match(svg, />transitions\/s</);
  });

  it('have panels side by side with one axis where latencies are to be compared', () => {
    const slow = latencies.map((point) => ({ ...point, max: 900 }));
    const svg = pictures({
      figures: {},
      curves: { ...noCurves, latency: slow, latencyOfBarePuts: latencies },
    })['latency.svg']!;
    assert.equal([...svg.matchAll(/>1,000<\/text>/g)].length, 4); // two x axes, two y axes
    assert.equal(dots(svg).length, 16);
    for (const label of ['p50', 'p90', 'p99', 'max'])
      assert.equal([...svg.matchAll(new RegExp(`>${label}<`, 'g'))].length, 2);
  });
});

describe('axes', () => {
  it('from 0 to a round number, in round steps', () => {
    assert.deepEqual(linear([39_000], [0, 100]).ticks, [0, 10_000, 20_000, 30_000, 40_000]);
    assert.deepEqual(linear([0.27], [0, 100]).ticks, [0, 0.1, 0.2, 0.3]);
    assert.deepEqual(linear([-0.4, 3.7], [0, 100]).ticks, [-1, 0, 1, 2, 3, 4]);
    assert.deepEqual(linear([], [0, 100]).ticks, [0, 0.2, 0.4, 0.6, 0.8, 1]);
  });

  it('linear: twice as much is twice as far from 0', () => {
    const { toPixel } = linear([40], [100, 300]);
    assert.deepEqual([0, 20, 40].map(toPixel), [100, 200, 300]);
  });

  it('logarithmic: ten times as much is as far everywhere', () => {
    const { ticks, toPixel } = logarithmic([10, 100, 1000], [0, 200], true);
    assert.deepEqual(ticks, [10, 100, 1000]);
    assert.deepEqual([10, 100, 1000].map(toPixel).map(Math.round), [0, 100, 200]);
  });

  it('logarithmic, of whatever figures: 1, 2, 5 around them', () => {
    assert.deepEqual(logarithmic([1.3, 42], [0, 1], false).ticks, [1, 2, 5, 10, 20, 50]);
    assert.deepEqual(logarithmic([0.5, 1], [0, 1], false).ticks, [0.5, 1]);
    assert.deepEqual(logarithmic([7], [0, 1], false).ticks, [5, 10]);
  });

  it('logarithmic, of one figure: in the middle', () => {
    assert.equal(logarithmic([4], [0, 200], true).toPixel(4), 100);
  });

  it('numbers as a person writes them', () => {
    assert.deepEqual([81_234.5, 999, 12.345, 0.0512, 0].map(numberText), [
      '81,235',
      '999',
      '12.3',
      '0.0512',
      '0',
    ]);
  });
});

describe('SVG', () => {
  it('nothing in it is markup that was not meant', () => {
    assert.equal(escapeXml('a<b> & "c"'), 'a&#60;b&#62; &#38; &#34;c&#34;');
    assertWellFormed(element('g', { title: '"<&>"' }, words(0, 0, '<script>&')));
  });
});

describe("the bench's page", () => {
  const row = { name: 'a <b>', target: 2, about: 'this & that' };

  it('has every row, every picture and the machine', () => {
    const html = page({
      ...result,
      rows: [
        { ...row, ratio: 1.5, ok: true, spread: [1, 2], unit: 'ms' },
        { ...row, ratio: null, ok: false, spread: null, why: 'denied' },
      ],
    });
    assert.match(
      html,
      /<td>a &#60;b&#62;<\/td><td class="number">1.5 ms<\/td><td class="number">1 to 2<\/td>/,
    );
    assert.match(html, /not measured.*short.*this &#38; that: denied/);
    assert.match(html, /2 cores \(A &#38; B\), 8 GiB, Linux 6.1, node v20, etcd 3.5.16/);
    assert.equal(html.match(/<svg /g)!.length, Object.keys(charts).length);
    assert.doesNotMatch(html, /figures mean little/);
  });

  it('says so when only a part of the work was done', () => {
    assert.match(page({ ...result, scale: 0.02 }), /Only 0.02 of the work was done/);
  });

  it('knows each target by one name', () => {
    assert.equal(new Set(targets.map(({ name }) => name)).size, targets.length);
  });
});
