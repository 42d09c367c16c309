/** The page at `/`: for a person who wonders what answers on this port. Pure. */
import type { Health } from './health.js';

export function page(about: object, health: Health): string {
  const rows = Object.entries(about).map(
    ([name, value]) => `<tr><th>${escapeHtml(name)}</th><td>${escapeHtml(String(value))}</td></tr>`,
  );
  const state = health.ready ? (health.degraded ? 'ready, but degraded' : 'ready') : 'not ready';
  const reasons = health.reasons.map((reason) => `<li>${escapeHtml(reason)}</li>`);
  const links = ['metrics', 'readyz', 'livez'].map((path) => `<a href="/${path}">${path}</a>`);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>flapd</title>
<h1>flapd: ${state}</h1>
<ul>${reasons.join('')}</ul>
<table>${rows.join('')}</table>
<p>${links.join(' ')}</p>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
