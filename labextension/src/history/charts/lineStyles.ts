/**
 * The styles of lines.
 */
import { ISource } from '../sources';

/** Theme colors that can be distinguished in light and dark themes. */
const COLORS = [
  '--jp-brand-color1',
  '--jp-warn-color1',
  '--jp-mirror-editor-operator-color',
  '--jp-success-color1',
  '--jp-icon-contrast-color2',
  '--jp-info-color1',
  '--jp-error-color1',
  '--jp-ui-font-color2'
];

/** Further lines reuse the colors with dashes. */
const DASHES = [[], [6, 3], [2, 3], [10, 3, 2, 3]];

/** The style of a line. */
export interface ILineStyle {
  /** The name of a CSS variable of the theme. */
  color: string;
  dash: number[];
}

/** The style of the line with a given index. */
export function lineStyle(number: number): ILineStyle {
  return {
    color: COLORS[number % COLORS.length],
    dash: DASHES[Math.floor(number / COLORS.length) % DASHES.length]
  };
}

/** The styles by the key of the source. The first worker on a GPU has the style of the GPU. */
export function lineStyles(sources: ISource[]): Map<string, ILineStyle> {
  const numbers = new Map<string, number>();
  const taken = new Set<string>();
  let next = 0;
  for (const { key, id } of sources) {
    const ofGpu = taken.has(id) ? undefined : numbers.get(id);
    numbers.set(key, ofGpu ?? next);
    next += ofGpu === undefined ? 1 : 0;
    if (ofGpu !== undefined) {
      taken.add(id);
    }
  }
  return new Map([...numbers].map(([key, number]) => [key, lineStyle(number)]));
}
