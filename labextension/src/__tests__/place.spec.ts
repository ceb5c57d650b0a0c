import { IPlace, ITabArea, placeOf } from '../logs/tab';
import { firstSize } from '../panel/panel';

/** An area with tabs; the first one is in front. */
function area(ids: string, width: number, height: number): ITabArea {
  const [front, ...others] = ids.split(' ');
  return { ids: [front, ...others], front, width, height };
}

const BELOW = { mode: 'split-bottom' };
const BESIDE_ALL = { mode: 'split-right', ref: 'jupyter-gpudask-beside-all' };

describe('the logs', () => {
  it.each<[string, ITabArea[], number, string, object]>([
    [
      'below the notebook',
      [area('notebook', 900, 650)],
      900,
      'notebook',
      BELOW
    ],
    [
      'below the current tab, if both are high enough',
      [area('notebook', 450, 900), area('plot', 450, 900)],
      900,
      'plot',
      BELOW
    ],
    [
      'in front of a plot, if the notebook is too low',
      [
        area('notebook', 450, 330),
        area('console', 450, 330),
        area('progress plot', 450, 660)
      ],
      900,
      'notebook',
      { mode: 'tab-after', ref: 'progress' }
    ],
    [
      'beside all tabs, if these are stacked in a low column',
      [
        area('notebook', 900, 220),
        area('plot', 900, 220),
        area('console', 900, 220)
      ],
      900,
      'notebook',
      BESIDE_ALL
    ],
    [
      'beside all tabs, if only the notebook is high enough',
      [area('notebook', 900, 450), area('console', 900, 200)],
      900,
      'console',
      BESIDE_ALL
    ],
    [
      'in front of the current tab in a small window',
      [area('notebook', 500, 220), area('console', 500, 220)],
      500,
      'console',
      { mode: 'tab-after', ref: 'console' }
    ],
    ['below, if nothing is shown', [], 900, '', BELOW],
    [
      'below, if no size is known',
      [area('notebook', 0, 0)],
      0,
      'notebook',
      BELOW
    ]
  ])('are added %s', (_, areas, total, current, expected) => {
    const place: IPlace = placeOf(areas, total, current, 'notebook');
    expect(place).toEqual(expected);
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
