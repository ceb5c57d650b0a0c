import { nullTranslator } from '@jupyterlab/translation';

import { formatUsage } from '../format';
import { TimeFormats } from '../times';

const MIN = new Date(2026, 10, 22, 10, 24, 5).getTime() / 1000;
const RANGE = { min: MIN, max: MIN + 900 };
const GERMAN = /^22\.11\.2026, 10:24:05\s?–\s?10:39:05$/;
const ENGLISH = /^Nov 22, 2026, 10:24:05\s?–\s?10:39:05$/;

describe('a date', () => {
  it.each([
    [
      'is German in German, if the browser is English',
      'de-DE',
      ['en-US'],
      GERMAN
    ],
    [
      'is English in English, if the browser is German',
      'en',
      ['de-DE', 'de'],
      ENGLISH
    ],
    [
      'has the form of the region of the browser, if the language has none',
      'en',
      ['de-DE', 'en-GB'],
      /^22 Nov 2026, 10:24:05\s?–\s?10:39:05$/
    ],
    ['has its own region, if the language has one', 'de-DE', ['de-AT'], GERMAN],
    ['accepts the code of a locale of the system', 'de_DE', ['en-US'], GERMAN],
    ['is English in a language without formats', 'ach-UG', ['de-DE'], ENGLISH],
    [
      'is English in a language whose code is invalid',
      'de@euro',
      ['de-DE'],
      ENGLISH
    ]
  ])('%s', (_, language, preferred, expected) => {
    const range = new TimeFormats(language, preferred).range(RANGE);
    expect(range).toMatch(expected);
  });
});

describe('a time of day', () => {
  const times = new TimeFormats('en', ['en-US']);

  it('has 24 hours', () => {
    expect(times.time(MIN + 12 * 3600)).toBe('22:24:05');
  });

  it('has seconds in ticks that are less than a minute apart only', () => {
    expect(times.ticks([MIN, MIN + 30], 30)).toEqual(['10:24:05', '10:24:35']);
    expect(times.ticks([MIN, MIN + 60], 60)).toEqual(['10:24', '10:25']);
  });
});

const trans = nullTranslator.load('jupyterlab');
const GIB = 2 ** 30;

describe('used and total memory', () => {
  it.each([
    ['have one unit', 41 * GIB, 140 * GIB, '41 of 140 GiB'],
    ['have one unit if nothing is used', 0, 1120 * GIB, '0 of 1.1 TiB'],
    ['have two units otherwise', 8 * GIB, 1120 * GIB, '8.0 GiB of 1.1 TiB']
  ])('%s', (_, used, total, text) => {
    expect(formatUsage(used, total, trans)).toBe(text);
  });
});
