/** Settings from flapd's own file: YAML, the parts of a name nested or with dots. */
import { parseDocument } from 'yaml';
import { type Layer, readConfigFile } from './layer.js';
import { quote } from './redact.js';
import { isSettingName, settingNames } from './settings.js';
import { didYouMean } from './suggest.js';

export function fromYaml(path: string, mayBeMissing: boolean, problems: string[]): Layer {
  const layer: Layer = new Map();
  const content = readConfigFile(path, mayBeMissing, problems);
  if (content === null) return layer;
  // YAML's own guesses (007 is seven, no is false) are not wanted: each setting knows what it reads.
  const document = parseDocument(content, { schema: 'failsafe' });
  const wrong = [...document.errors, ...document.warnings].map(({ message }) => message.split('\n')[0]!);
  if (wrong.length > 0) {
    for (const message of new Set(wrong)) problems.push(`${path} is no proper YAML: ${message}`);
    return layer;
  }
  try {
    flatten(document.toJS({ mapAsMap: true }), '', path, layer, problems);
  } catch (error) {
    // Aliases that name aliases may stand for more than fits into memory; the package refuses them.
    problems.push(`${path} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
  return layer;
}

function flatten(node: unknown, name: string, path: string, layer: Layer, problems: string[]): void {
  // A section with everything in it commented out, or a file that is.
  const isSection = name === '' || settingNames.some((setting) => setting.startsWith(`${name}.`));
  if (isSettingName(name)) {
    if (layer.has(name)) problems.push(`${name} is set twice in ${path}`);
    layer.set(name, { value: node, source: path });
  } else if (node instanceof Map) {
    for (const [key, value] of node)
      flatten(value, name === '' ? String(key) : `${name}.${key}`, path, layer, problems);
  } else if (!isSection || (node !== null && node !== '')) {
    const what = name === '' ? 'the content' : isSection ? `${name} by itself` : quote(name);
    problems.push(`${what} in ${path} is no setting${isSection ? '' : didYouMean(name, settingNames)}`);
  }
}
