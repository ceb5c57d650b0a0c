/**
 * How a line looks, and a metric in words.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { formatBytes, Units } from '../format';
import { IMetric, ISubject } from './metrics';

/** Colours of the theme that can be told apart in the light ones and in the dark ones. */
const COLOURS = [
  '--jp-brand-color1',
  '--jp-warn-color1',
  '--jp-mirror-editor-operator-color',
  '--jp-success-color1',
  '--jp-icon-contrast-color2',
  '--jp-info-color1',
  '--jp-error-color1',
  '--jp-ui-font-color2'
];

/** When the colours are used up they come again, dashed. */
const DASHES = [[], [6, 3], [2, 3], [10, 3, 2, 3]];

export interface ILineStyle {
  /** The name of a variable of the theme. */
  colour: string;
  dash: number[];
}

/** The style of the line with that number. */
export function styleOf(number: number): ILineStyle {
  return {
    colour: COLOURS[number % COLOURS.length],
    dash: DASHES[Math.floor(number / COLOURS.length) % DASHES.length]
  };
}

/** A style for each subject, by its key; the first worker on a GPU looks like that GPU. */
export function stylesOf(subjects: ISubject[]): Map<string, ILineStyle> {
  const numbers = new Map<string, number>();
  const taken = new Set<string>();
  let next = 0;
  for (const { key, id } of subjects) {
    const ofGpu = taken.has(id) ? undefined : numbers.get(id);
    numbers.set(key, ofGpu ?? next);
    next += ofGpu === undefined ? 1 : 0;
    if (ofGpu !== undefined) {
      taken.add(id);
    }
  }
  return new Map([...numbers].map(([key, number]) => [key, styleOf(number)]));
}

/** The time of the day, to the second. */
export function formatTime(time: number): string {
  return CLOCKS.medium.format(time * 1000);
}

/** The times of the day of moments so many seconds apart, as short as they can be told apart. */
export function formatTimes(times: number[], step: number): string[] {
  const clock = step < 60 ? CLOCKS.medium : CLOCKS.short;
  return times.map(time => clock.format(time * 1000));
}

/** Made once: that takes as long as a whole chart. */
const CLOCKS = { medium: clockOf('medium'), short: clockOf('short') };

function clockOf(timeStyle: 'medium' | 'short'): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat([], { timeStyle, hourCycle: 'h23' });
}

/** A value in words, as short as possible. */
export function formatValue(
  value: number,
  unit: IMetric['unit'],
  trans: TranslationBundle,
  units: Units
): string {
  switch (unit) {
    case 'percent':
      return trans.__('%1 %', value.toFixed(0));
    case 'bytes':
      return formatBytes(value, units);
    case 'speed':
      return trans.__('%1/s', formatBytes(value, units));
    case 'rate':
      return value.toFixed(value > 0 && value < 10 ? 1 : 0);
  }
}
