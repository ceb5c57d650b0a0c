/**
 * Configuration of the uPlot charts.
 */
import uPlot from 'uplot';

import { Units } from '../../format';
import { IMetric } from '../metrics';
import { IRange } from '../range';
import { linePath } from './linePath';
import { ILineStyle } from './lineStyles';
import { themeValue } from './theme';

export interface IPlotOptions {
  unit: IMetric['unit'];
  units: Units;
  /** The upper end of the axis, unless a value is larger; 0 if not known. */
  top?: number;
  lines: { name: string; style: ILineStyle }[];
  /** Format a value. */
  format: (value: number) => string;
  /** Format times that are `step` seconds apart. */
  formatTimes: (times: number[], step: number) => string[];
  /** Called when a range is selected with the mouse. */
  onZoom: (range: IRange) => void;
  /** Called with the index of the time under the mouse, or null. */
  onCursor: (index: number | null) => void;
}

/** The plots with this key share a cursor. */
const SYNC = 'jupyter-gpudask-history';

/** The tick distances of times, in seconds; uPlot has none between 1 and 5 minutes. */
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800];

/** The tick distances of sizes in bytes. */
const BYTE_STEPS = {
  GiB: Array.from({ length: 50 }, (_, power) => 2 ** power),
  GB: Array.from({ length: 15 }, (_, power) =>
    [1, 2, 5].map(step => step * 10 ** power)
  ).flat()
};

/** The upper end of the axis of a metric without a known maximum, while its values are small or 0. */
const SMALLEST_TOPS = {
  percent: () => 100,
  rate: () => 10,
  bytes: (units: Units) => (units === 'GiB' ? 2 ** 30 : 1e9),
  speed: (units: Units) => (units === 'GiB' ? 2 ** 20 : 1e6)
};

/**
 * The upper end of the axis.
 *
 * @param top - the maximum of the metric, if known
 * @param max - the largest value that is shown, if there is one
 */
export function axisTop(
  unit: IMetric['unit'],
  units: Units,
  top: number | undefined,
  max: number | null
): number {
  if (top) {
    return Math.max(top, max ?? 0);
  }
  // A little room above the largest value.
  return Math.max(SMALLEST_TOPS[unit](units), 1.1 * (max ?? 0));
}

/** The smallest distance of the times below a plot in pixels; those at least a minute apart are written without seconds. */
function timeSpace(secondsPerPixel: number): number {
  const [short, long] = [48, 64];
  return short * secondsPerPixel > 30 ? short : long;
}

/** Create a plot without data, in the colors of the theme. */
export function createPlot(
  node: HTMLElement,
  {
    unit,
    units,
    top,
    lines,
    format,
    formatTimes,
    onZoom,
    onCursor
  }: IPlotOptions
): uPlot {
  const font = `11px ${themeValue('--jp-ui-font-family')}`;
  const axis: uPlot.Axis = {
    font,
    stroke: themeValue('--jp-ui-font-color2'),
    grid: { stroke: themeValue('--jp-border-color2'), width: 1 },
    ticks: { stroke: themeValue('--jp-border-color2'), width: 1, size: 4 }
  };
  const options: uPlot.Options = {
    width: node.clientWidth || 300,
    height: node.clientHeight || 150,
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      sync: { key: SYNC, setSeries: false },
      points: { size: 6 }
    },
    scales: {
      x: { time: true, auto: false },
      y: { range: (_, __, max) => [0, axisTop(unit, units, top, max)] }
    },
    axes: [
      {
        ...axis,
        values: (_, times, __, ___, step) => formatTimes(times, step),
        incrs: TIME_STEPS,
        space: (_, __, min, max, width) => timeSpace((max - min) / width),
        size: 28
      },
      {
        ...axis,
        size: 64,
        values: (_, values) => values.map(format),
        ...((unit === 'bytes' || unit === 'speed') && {
          incrs: BYTE_STEPS[units]
        })
      }
    ],
    series: [
      {},
      ...lines.map(({ name, style }) => ({
        label: name,
        stroke: themeValue(style.color),
        dash: style.dash,
        width: 1.5,
        paths: linePath,
        points: { show: false }
      }))
    ],
    hooks: {
      setCursor: [plot => onCursor(plot.cursor.idx ?? null)],
      setSelect: [plot => zoom(plot, onZoom)]
    }
  };
  return new uPlot(options, [[], ...lines.map(() => [])], node);
}

/** Report the selected range, and clear the selection. */
function zoom(plot: uPlot, onZoom: (range: IRange) => void): void {
  const { left, width } = plot.select;
  if (width > 0) {
    onZoom({
      min: plot.posToVal(left, 'x'),
      max: plot.posToVal(left + width, 'x')
    });
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }
}
