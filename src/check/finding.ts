/** What a check has found, as data: checks return these, and print nothing. */
import { type CatalogueEntry, type CheckName, catalogue, type FindingId, type Level } from './catalogue.js';

export interface Finding {
  readonly check: CheckName;
  readonly level: Level | 'ok';
  /** Null where all is well. */
  readonly id: FindingId | null;
  readonly what: string;
  /** Null where all is well. */
  readonly wayOut: string | null;
}

export function fine(check: CheckName, what: string): Finding {
  return { check, level: 'ok', id: null, what, wayOut: null };
}

/** One of the catalogue's, which says how bad it is; `wayOut` names the file, key or command of this very case. */
export function found(id: FindingId, what: string, wayOut: string): Finding {
  const { check, level }: CatalogueEntry = catalogue[id];
  return { check, level, id, what, wayOut };
}

export function anyProblem(findings: readonly Finding[]): boolean {
  return findings.some(({ level }) => level === 'problem');
}

/** For a person: a line each, with the way out below. */
export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const lines = findings.flatMap(({ level, check, what, wayOut, id }) => {
    const indent = ' '.repeat(8 + 2 + width + 2);
    const line = `${level.toUpperCase().padEnd(8)}  ${check.padEnd(width)}  ${what}`;
    return [
      id === null ? line : `${line} [${id}]`,
      ...(wayOut === null ? [] : [`${indent}way out: ${wayOut.replaceAll('\n', `\n${indent}         `)}`]),
    ];
  });
  const count = (wanted: Finding['level']) => findings.filter(({ level }) => level === wanted).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  const end =
    problems + warnings === 0
      ? 'all is well'
      : `${problems} ${problems === 1 ? 'problem' : 'problems'}, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`;
  return [...lines, end].join('\n');
}
