/** Whether this process could make a directory, and write in it, without making it. */
import { accessSync, constants, statSync } from 'node:fs';
import { dirname } from 'node:path';

export type DirectoryState =
  | { readonly kind: 'there' }
  /** It can be made, below this one. */
  | { readonly kind: 'creatable'; readonly below: string }
  | { readonly kind: 'unusable'; readonly why: string };

export function directoryState(path: string): DirectoryState {
  const start = stateOf(path);
  if (start !== 'missing') return start;
  for (let below = dirname(path); ; below = dirname(below)) {
    const state = stateOf(below);
    if (state === 'missing' && below !== dirname(below)) continue;
    if (state === 'missing' || state.kind === 'unusable')
      return { kind: 'unusable', why: `it is missing, and ${below} cannot be written (${whyOf(state)})` };
    return { kind: 'creatable', below };
  }
}

function whyOf(state: DirectoryState | 'missing'): string {
  return state !== 'missing' && state.kind === 'unusable' ? state.why : 'missing';
}

function stateOf(path: string): DirectoryState | 'missing' {
  try {
    if (!statSync(path).isDirectory()) return { kind: 'unusable', why: `${path} is no directory` };
    accessSync(path, constants.W_OK | constants.X_OK);
    return { kind: 'there' };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return 'missing';
    const why = {
      EACCES: 'permission denied',
      EROFS: 'the file system is read-only',
      ENOTDIR: 'a part of the path is no directory',
    };
    return { kind: 'unusable', why: why[code as keyof typeof why] ?? (error as Error).message };
  }
}
