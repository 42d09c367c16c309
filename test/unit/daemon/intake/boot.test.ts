import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { BootMark } from '../../../../src/daemon/intake/boot.js';

describe("the mark of a boot in the journal's directory", () => {
  it('is the same within a boot and a namespace, and not before it is left, nor after another boot', () => {
    const folder = mkdtempSync(join(tmpdir(), 'flapd-boot-'));
    assert.equal(new BootMark(folder).same, false);
    new BootMark(folder).leave();
    assert.equal(new BootMark(folder).same, true);
    const file = join(folder, 'boot');
    writeFileSync(file, readFileSync(file, 'utf8').replace(/^[0-9a-f]{8}/, '00000000'));
    assert.equal(new BootMark(folder).same, false);
    rmSync(folder, { recursive: true });
  });
});
