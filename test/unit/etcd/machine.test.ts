import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { thisMachine } from '../../../src/etcd/machine.js';

const folder = mkdtempSync(join(tmpdir(), 'flapd-machine-'));
after(() => rmSync(folder, { recursive: true }));
const file = (name: string, content: string) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};
const missing = join(folder, 'missing');

describe('which machine this is', () => {
  it('is told by its machine id, always the same, and not the id itself', () => {
    const id = '0123456789abcdef0123456789abcdef';
    const machine = thisMachine(file('machine-id', `${id}\n`), missing);
    assert.equal(machine.from, 'machine-id');
    assert.match(machine.name, /^[0-9a-f]{16}$/);
    assert.ok(!machine.name.includes(id.slice(0, 8)));
    assert.deepEqual(thisMachine(join(folder, 'machine-id'), missing), machine);
  });

  it('is another one with another id', () => {
    const one = thisMachine(file('one', 'a'), missing);
    const other = thisMachine(file('other', 'b'), missing);
    assert.notEqual(one.name, other.name);
  });

  for (const content of ['', 'uninitialized\n']) {
    it(`is told by the product's uuid where the machine id is ${JSON.stringify(content)}`, () => {
      assert.equal(thisMachine(file('empty', content), file('uuid', 'u')).from, 'product-uuid');
    });
  }

  it('is told by its host name where it has nothing better', () => {
    assert.equal(thisMachine(missing, missing).from, 'hostname');
  });
});
