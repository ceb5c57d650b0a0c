import { Widget } from '@lumino/widgets';

import { logsMode } from '../logs/tab';
import { firstSize } from '../panel/panel';

describe('the logs', () => {
  it.each([
    ['below the current tab, if both are high enough', 650, 'split-bottom'],
    ['to the right of the current tab, if it is too low', 630, 'split-right'],
    ['below, if no size is known', 0, 'split-bottom']
  ])('are added %s', (_, height, mode) => {
    const current = new Widget();
    Object.defineProperty(current.node, 'offsetHeight', { value: height });
    expect(logsMode(current)).toBe(mode);
  });
});

describe('the height of the first section', () => {
  it.each([
    ['is that of its content if both fit', 600, 200, 300, 200],
    ['is half if neither fits', 600, 400, 500, 300],
    ['is what the second leaves', 600, 900, 100, 500],
    ['is its content if only the second does not fit', 600, 100, 900, 100]
  ])('%s', (_, total, first, second, size) => {
    expect(firstSize(total, first, second)).toBe(size);
  });
});
