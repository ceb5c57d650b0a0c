import { firstSize } from '../panel/panel';

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
