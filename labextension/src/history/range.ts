/** A time range, in seconds since the epoch. */
export interface IRange {
  min: number;
  max: number;
}

/** The keys that change the range, as in `aria-keyshortcuts`. */
export const RANGE_KEYS = '+ - ArrowLeft ArrowRight 0 Escape';

/** The shortest range, in seconds. */
const SHORTEST = 10;

/** The part of the range by which an arrow key moves it. */
const STEP = 1 / 4;

/**
 * The range after a key.
 *
 * @param key - the `key` of the event
 * @param range - the range that is shown
 * @param all - the range of all times; the new one is within it
 * @param span - the length of the range without zoom, in seconds
 * @returns null for the range without zoom, and undefined if the key does not change the range
 */
export function rangeAfterKey(
  key: string,
  range: IRange,
  all: IRange,
  span: number
): IRange | null | undefined {
  const length = range.max - range.min;
  switch (key) {
    case '+':
    case '=':
      return length > SHORTEST ? scaled(range, 1 / 2, all) : undefined;
    case '-': {
      const wider = scaled(range, 2, all);
      return wider.max - wider.min < span ? wider : null;
    }
    case 'ArrowLeft':
      return range.min > all.min ? moved(range, -STEP, all) : undefined;
    case 'ArrowRight':
      return range.max < all.max ? moved(range, STEP, all) : undefined;
    case '0':
    case 'Escape':
      return null;
    default:
      return undefined;
  }
}

/** A range with the same center, moved into the range of all times if it is longer. */
function scaled({ min, max }: IRange, factor: number, all: IRange): IRange {
  const half = Math.max(SHORTEST, (max - min) * factor) / 2;
  const center = (min + max) / 2;
  return within({ min: center - half, max: center + half }, all);
}

function moved({ min, max }: IRange, part: number, all: IRange): IRange {
  const by = (max - min) * part;
  return within({ min: min + by, max: max + by }, all);
}

/** A range of the same length in the range of all times. */
function within({ min, max }: IRange, all: IRange): IRange {
  const by = Math.max(0, all.min - min) - Math.max(0, max - all.max);
  return { min: min + by, max: max + by };
}
