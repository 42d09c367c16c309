/** SVG as text. Pure. */

export type Attributes = Readonly<Record<string, string | number>>;

/** Content that is text was escaped by whoever wrote it: words() does. */
export function element(name: string, attributes: Attributes, ...content: readonly string[]): string {
  const inside = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${typeof value === 'number' ? short(value) : escapeXml(value)}"`)
    .join('');
  return content.length === 0 ? `<${name}${inside}/>` : `<${name}${inside}>${content.join('')}</${name}>`;
}

export function words(x: number, y: number, text: string, attributes: Attributes = {}): string {
  return element('text', { x, y, ...attributes }, escapeXml(text));
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** On white whatever the page is, with its title above. */
export function picture({ width, height }: Size, title: string, content: readonly string[]): string {
  const root = {
    xmlns: 'http://www.w3.org/2000/svg',
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: 'img',
    'font-family': 'sans-serif',
    'font-size': 12,
    fill: '#1a202c',
  };
  return `${element(
    'svg',
    root,
    '\n',
    element('title', {}, escapeXml(title)),
    element('rect', { width, height, fill: '#ffffff' }),
    words(12, 24, title, { 'font-size': 16, 'font-weight': 'bold' }),
    '\n',
    content.join('\n'),
    '\n',
  )}\n`;
}

export function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** A tenth of a pixel is enough. */
function short(value: number): string {
  return String(Math.round(value * 10) / 10);
}
