import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  duration,
  durationText,
  flag,
  httpAddress,
  oneOf,
  optional,
  optionalRegex,
  regex,
  size,
  sizeText,
  urls,
  whole,
} from '../../../src/config/values.js';

interface Reader {
  safeParse(value: unknown): {
    success: boolean;
    data?: unknown;
    error?: { issues: readonly { message: string }[] } | undefined;
  };
}

const good: [string, Reader, unknown, unknown][] = [
  ['duration', duration(0, 86_400_000), '500ms', 500],
  ['duration', duration(0, 86_400_000), '10 s', 10_000],
  ['duration', duration(0, 86_400_000), ' 1.5s ', 1500],
  ['duration', duration(0, 86_400_000), '2m', 120_000],
  ['duration', duration(0, 86_400_000), '1h', 3_600_000],
  ['a bare number of seconds', duration(0, 86_400_000), '90', 90_000],
  ['duration', duration(0, 86_400_000), '0', 0],
  ['size', size(0, 2 ** 40), '4096', 4096],
  ['size', size(0, 2 ** 40), '64MiB', 64 * 2 ** 20],
  ['size', size(0, 2 ** 40), '1.5 kib', 1536],
  ['size', size(0, 2 ** 40), '12B', 12],
  ['whole', whole(-5, 10), '-5', -5],
  ['whole', whole(0, 10), ' 10 ', 10],
  ['flag', flag, 'true', true],
  ['flag', flag, 'Yes', true],
  ['flag', flag, 'off', false],
  ['flag', flag, '0', false],
  ['oneOf', oneOf('a', 'b'), ' b', 'b'],
  ['optional', optional('a path'), '/x', '/x'],
  ...['', 'none', 'OFF', 'null', '~', '  '].map((text): [string, Reader, unknown, unknown] => [
    'optional',
    optional('a path'),
    text,
    null,
  ]),
  ['optionalRegex', optionalRegex, '', null],
  ['optionalRegex', optionalRegex, '^a$', /^a$/],
  ['regex', regex, '^(tap|cali)', /^(tap|cali)/],
  ['urls', urls, 'http://a:1, http://b', ['http://a:1', 'http://b']],
  ['urls', urls, ['https://a:1', ' https://[::1]:2379/ '], ['https://a:1', 'https://[::1]:2379/']],
  ['urls', urls, 'HTTP://a,http://b', ['HTTP://a', 'http://b']],
  ['httpAddress', httpAddress, '0.0.0.0:80', { host: '0.0.0.0', port: 80 }],
  ['httpAddress', httpAddress, '[::1]:80', { host: '::1', port: 80 }],
  ['httpAddress', httpAddress, '9889', { host: '127.0.0.1', port: 9889 }],
  ['httpAddress', httpAddress, 'off', null],
];

const bad: [string, Reader, unknown, RegExp][] = [
  ['duration without a number', duration(0, 1000), 's', /^a duration such as/],
  ['duration of an unknown unit', duration(0, 1000), '1d', /^a duration such as/],
  ['negative duration', duration(0, 1000), '-1s', /^a duration such as/],
  ['duration that is too long', duration(50, 60_000), '2m', /from 50ms to 1m$/],
  ['duration that is too short', duration(50, 60_000), '49ms', /from 50ms to 1m$/],
  ['list for a duration', duration(0, 1000), ['1s'], /^a duration such as/],
  ['map for a duration', duration(0, 1000), new Map(), /^a duration such as/],
  ['size of an unknown unit', size(0, 2 ** 30), '1MB', /^a size such as/],
  ['size that is too large', size(0, 2 ** 20), '2MiB', /to 1MiB$/],
  ['fraction for a whole number', whole(0, 10), '1.5', /^a whole number from 0 to 10$/],
  ['other notation for a whole number', whole(0, 100), '1e1', /^a whole number/],
  ['nothing for a whole number', whole(0, 10), '', /^a whole number/],
  ['nothing for a number', whole(0, 10), null, /^a whole number/],
  ['other word for a flag', flag, 'maybe', /^true or false$/],
  ['other word', oneOf('a', 'b'), 'A', /^one of a, b$/],
  ['name that its rule refuses', optional('a name', () => 'is bad'), 'x', /^a name, or none \(it is bad\)$/],
  ['expression that is none', regex, '(', /^a regular expression \(.+\)$/],
  ['empty expression', regex, '', /would match everything/],
  ['optional expression that is none', optionalRegex, '[', /^a regular expression, or none \(.+\)$/],
  ['URL of another scheme', urls, 'ftp://a', /^a list of http/],
  ['URLs of two schemes', urls, 'http://a,https://b', /all of one scheme/],
  ['URL with a user', urls, 'http://u:p@a:1', /without a user or password/],
  ['URL with a path', urls, 'http://a:1/x', /^a list of http/],
  ['port that is none', urls, 'http://a:65536', /^a list of http/],
  ['no URL', urls, '', /^a list of http/],
  ['a list of anything', urls, [1], /^a list of http/],
  ['a map', urls, new Map(), /^a list of http/],
  ['port alone that is none', httpAddress, '65536', /^host:port/],
  ['address without a port', httpAddress, '127.0.0.1', /^host:port/],
  ['IPv6 without brackets', httpAddress, '::1:80', /^host:port/],
];

describe('what is allowed is read', () => {
  for (const [what, kind, input, expected] of good)
    test(`${what}: ${JSON.stringify(input)}`, () => {
      const parsed = kind.safeParse(input);
      assert.ok(parsed.success);
      assert.deepEqual(parsed.data, expected);
    });
});

describe('what is not allowed is refused, and the answer says what is', () => {
  for (const [what, kind, input, expected] of bad)
    test(what, () => {
      const parsed = kind.safeParse(input);
      assert.equal(parsed.success, false);
      assert.match(parsed.error!.issues.map(({ message }) => message).join('; '), expected);
    });
});

test('durations and sizes are written in the unit that suits them', () => {
  assert.deepEqual([0, 50, 1000, 90_000, 120_000, 7_200_000].map(durationText), [
    '0s',
    '50ms',
    '1s',
    '90s',
    '2m',
    '2h',
  ]);
  assert.deepEqual([0, 1000, 1024, 1536, 2 ** 20, 3 * 2 ** 30].map(sizeText), [
    '0',
    '1000',
    '1KiB',
    '1536',
    '1MiB',
    '3GiB',
  ]);
});
