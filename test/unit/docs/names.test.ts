/** What the documents name is there: files, headings, settings, metrics, commands and their options. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { isSettingName, settingNames } from '../../../src/config/settings.js';
import {
  anchors,
  blocks,
  codeSpans,
  documents,
  links,
  metricNames,
  metricsIn,
  read,
  root,
} from '../../support/documents.js';

const families = new Set(
  settingNames.filter((name) => name.includes('.')).map((name) => name.split('.')[0]!),
);

/** `limits.burst`, also as in `limits.burst: 100` and `limits.burst=100`. File names look alike, and have another ending. */
function settingsIn(spans: readonly string[]): string[] {
  return spans.flatMap((span) => {
    const name = /^([a-z]+\.[a-zA-Z]+)(?:[:=\s].*)?$/.exec(span)?.[1];
    if (name === undefined || !families.has(name.split('.')[0]!)) return [];
    return /\.(?:ts|md|js|sock|cfg|yaml|service|conf)$/.test(name) ? [] : [name];
  });
}

/** The leaves of a file of settings, with their whole names. */
function settingsOfYaml(value: unknown, prefix = ''): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [prefix];
  return Object.entries(value).flatMap(([name, inner]) =>
    settingsOfYaml(inner, prefix === '' ? name : `${prefix}.${name}`),
  );
}

/** What begins with `flapd` between backticks, or in a block for the shell. */
function commandsIn(markdown: string): string[] {
  const lines = [...blocks(markdown, 'sh'), ...blocks(markdown, 'console')].flatMap((block) =>
    block.split('\n'),
  );
  const typed = lines.map((line) =>
    line
      .replace(/^# (?=flapd|sudo)/, '')
      .replace(/^sudo -u flapd /, '')
      .replace(/ #.*$/, ''),
  );
  return [...codeSpans(markdown), ...typed].filter((text) => /^flapd [a-z-]/.test(text));
}

for (const path of documents()) {
  const text = read(path);
  describe(path, () => {
    it('links to what there is', () => {
      for (const link of links(text)) {
        if (/^(?:https?|mailto):/.test(link)) continue;
        const [file, anchor] = link.split('#') as [string, string?];
        const target = file === '' ? path : normalize(join(dirname(path), file));
        assert.ok(existsSync(join(root, target)), `${link}: there is no ${target}`);
        if (anchor !== undefined)
          assert.ok(anchors(read(target)).has(anchor), `${link}: ${target} has no such heading`);
      }
    });

    it('names settings that there are', () => {
      for (const name of settingsIn(codeSpans(text))) assert.ok(isSettingName(name), name);
      for (const block of blocks(text, 'yaml'))
        if (block.includes('flapd.yaml'))
          for (const name of settingsOfYaml(parse(block))) assert.ok(isSettingName(name), name);
    });

    it('names metrics that there are', () => {
      const known = metricNames();
      for (const span of codeSpans(text))
        for (const metric of metricsIn(span))
          assert.ok(known.has(metric) || metric === 'flapd_', `${metric} in ${span}`);
    });
  });
}

describe('the commands that the documents name', () => {
  const reference = read('docs/reference/commands.md');
  const known = new Set([...reference.matchAll(/^## (flapd .+)$/gm)].map(([, name]) => name!));

  for (const path of documents().filter((name) => name !== 'docs/reference/commands.md'))
    it(`are there: ${path}`, () => {
      for (const span of commandsIn(read(path))) {
        const [, command, rest] = /^flapd ([a-z-]+)(.*)$/.exec(span)!;
        assert.ok(known.has(`flapd ${command}`), `${span}: there is no such command`);
        const start = reference.indexOf(`\n## flapd ${command}\n`);
        const end = reference.indexOf('\n## ', start + 1);
        const help = reference.slice(start, end === -1 ? undefined : end);
        for (const option of rest!.split(' -- ')[0]!.match(/(?<=\s)--[a-z][a-z-]+/g) ?? [])
          assert.ok(help.includes(`${option} `), `${span}: flapd ${command} has no ${option}`);
      }
    });
});
