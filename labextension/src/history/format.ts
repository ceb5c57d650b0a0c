/**
 * Formatting of times and values.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { formatBytes, Units } from '../format';
import { IMetric } from './metrics';
import { IRange } from './range';

/** Format a time of day with seconds. */
export function formatTime(time: number): string {
  return CLOCKS.medium.format(time * 1000);
}

/** Format a range of times with the date: "Nov 22, 2026, 10:24:05 – 10:39:05". */
export function formatRange({ min, max }: IRange): string {
  return DATES.formatRange(min * 1000, max * 1000);
}

/** Format the times of day of ticks that are `step` seconds apart, without seconds if possible. */
export function formatTimes(times: number[], step: number): string[] {
  const clock = step < 60 ? CLOCKS.medium : CLOCKS.short;
  return times.map(time => clock.format(time * 1000));
}

/** Created once, because that takes as long as rendering a chart. */
const CLOCKS = { medium: clockOf('medium'), short: clockOf('short') };

const DATES = new Intl.DateTimeFormat([], {
  dateStyle: 'medium',
  timeStyle: 'medium',
  hourCycle: 'h23'
});

function clockOf(timeStyle: 'medium' | 'short'): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat([], { timeStyle, hourCycle: 'h23' });
}

/** Format a value with its unit. */
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
