import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { targets } from '../../../bench/macro/targets.js';
import { bars, page } from '../../../bench/report.js';

const widths = (svg: string): number[] =>
  [...svg.matchAll(/<rect x="\d+" y="\d+" width="(\d+)"/g)].map(([, width]) => Number(width));

describe("the bench's report", () => {
  it('draws each figure that was measured, in proportion, with its number beside it', () => {
    const svg = bars({ 'ceiling at 127, writes/s': 80_000, 'flapd, transitions/s': 40_000 })[
      'throughput.svg'
    ]!;
    const [ceiling, flapd, ...others] = widths(svg);
    assert.deepEqual(others, []);
    assert.ok(Math.abs(ceiling! / flapd! - 2) < 0.02, `${ceiling} and ${flapd}`);
    assert.match(svg, />80,000 \/s</);
    assert.match(svg, />40,000 \/s</);
  });

  it('has no bars where nothing was measured, and is whole all the same', () => {
    const svg = bars({})['latency.svg']!;
    assert.deepEqual(widths(svg), []);
    assert.match(svg, /^<svg .*<\/svg>\n$/s);
  });

  it('is one page with every row and picture, and nothing in it is markup that was not meant', () => {
    const html = page({
      date: '2026-01-01',
      node: 'v20',
      rounds: 3,
      figures: {},
      rows: [{ name: 'a <b>', ratio: 1.5, target: 2, ok: false }],
    });
    assert.match(html, /<td>a &#60;b&#62;<\/td><td>1.5 <\/td><td>2<\/td><td>short<\/td>/);
    assert.equal(html.match(/<svg /g)!.length, 3);
  });

  it('knows each target by one name', () => {
    assert.equal(new Set(targets.map(({ name }) => name)).size, targets.length);
  });
});
