import { nullTranslator } from '@jupyterlab/translation';

import { formatUsage } from '../format';

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
