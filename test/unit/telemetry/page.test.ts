import assert from 'node:assert/strict';
import { test } from 'node:test';
import { page } from '../../../src/telemetry/page.js';

test('the page says what state flapd is in, and why', () => {
  const health = { ready: true, degraded: false, reasons: [] };
  assert.match(page({}, health), /<h1>flapd: ready<\/h1>/);
  assert.match(page({}, { ...health, degraded: true }), /<h1>flapd: ready, but degraded<\/h1>/);
  assert.match(
    page({}, { ready: false, degraded: false, reasons: ['etcd: away'] }),
    /<h1>flapd: not ready<\/h1>\n<ul><li>etcd: away<\/li>/,
  );
});

test('whatever a name holds is text, not HTML', () => {
  const html = page({ host: `<script>"&'` }, { ready: true, degraded: false, reasons: ['<b>'] });
  assert.doesNotMatch(html, /<script>|<b>/);
  assert.match(html, /&#60;script&#62;&#34;&#38;&#39;/);
});
