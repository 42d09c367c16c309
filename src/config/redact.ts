/** Values as they may be shown: nothing that could be a secret, and nothing that could disturb a terminal. */
const secretName = /password|secret|token/i;
const shownMax = 200;

export function redact(name: string, value: unknown): string {
  if (secretName.test(name) && !/file$/i.test(name)) return '(redacted)';
  const shown = typeof value === 'string' ? value : JSON.stringify(value, asObjects);
  return quote(withoutCredentials(shown));
}

/**
 * Hides all between a URL's scheme and its last `@`, and what its parameters say. That may hide a harmless host name
 * as well; the other way round, a password with a `/`, a `,` or an `@` in it would show.
 */
export function withoutCredentials(text: string): string {
  const plain = text.replace(/([?&][^=&\s]*=)[^&\s,"]*/g, '$1(redacted)');
  const at = plain.lastIndexOf('@');
  if (at < 0) return plain;
  const scheme = /^[a-z0-9+.-]*:\/\//i.exec(plain)?.[0] ?? '';
  return `${scheme}(redacted)${plain.slice(at)}`;
}

/** In quotes and on one line, whatever it holds. */
export function quote(text: string): string {
  const cut = text.length > shownMax ? `${text.slice(0, shownMax)}...` : text;
  return JSON.stringify(cut).replace(
    /[\u007f-\u009f\u2028\u2029]/g,
    (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function asObjects(_key: string, value: unknown): unknown {
  return value instanceof Map ? Object.fromEntries(value) : value;
}
