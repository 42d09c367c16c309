/** Values as they may be shown: nothing that could be a secret. */
const secretName = /password|secret|token/i;

export function redact(name: string, value: unknown): string {
  if (secretName.test(name) && !/file$/i.test(name)) return '(redacted)';
  // A URL with a user in it is refused, and shown without.
  const shown = typeof value === 'string' ? value : JSON.stringify(value);
  return JSON.stringify(shown.replace(/\/\/[^/\s@]*@/g, '//(redacted)@').slice(0, 200));
}
