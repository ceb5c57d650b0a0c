/**
 * Formatting of values.
 */
import { TranslationBundle } from '@jupyterlab/translation';

import { formatBytes, Units } from '../format';
import { IMetric } from './metrics';

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
