/**
 * One plot by uPlot: its axes, its lines, and what the mouse does in it.
 */
import uPlot from 'uplot';

import { Units } from '../format';
import { pathOf } from './linePath';
import { formatTimes, ILineStyle } from './lineStyles';
import { IMetric } from './metrics';
import { themeValue } from './theme';

/** From one moment to another, in seconds since the epoch. */
export interface IRange {
  min: number;
  max: number;
}

export interface IPlotOptions {
  unit: IMetric['unit'];
  units: Units;
  /** Where the axis ends, unless a metric is above it. */
  top?: number;
  lines: { name: string; style: ILineStyle }[];
  /** A value in words. */
  format: (value: number) => string;
  /** A range was marked with the mouse. */
  onZoom: (range: IRange) => void;
  /** The mouse is over the metrics of that moment, or over none. */
  onCursor: (index: number | null) => void;
}

export const PLOT_HEIGHT = 150;

/** All plots with this key have one cursor. */
const SYNC = 'jupyter-gpudask-history';

/** Ticks of bytes are at round numbers of their unit. */
const BYTE_STEPS = {
  GiB: Array.from({ length: 50 }, (_, power) => 2 ** power),
  GB: Array.from({ length: 15 }, (_, power) =>
    [1, 2, 5].map(step => step * 10 ** power)
  ).flat()
};

/** Make a plot without data in a node, in the colours of the theme. */
export function createPlot(
  node: HTMLElement,
  { unit, units, top, lines, format, onZoom, onCursor }: IPlotOptions
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
    height: PLOT_HEIGHT,
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      sync: { key: SYNC, setSeries: false },
      points: { size: 6 }
    },
    scales: {
      x: { time: true, auto: false },
      y: { range: (_, __, max) => [0, Math.max(top ?? 1, max ?? 0)] }
    },
    axes: [
      {
        ...axis,
        values: (_, times, __, ___, step) => formatTimes(times, step),
        space: 60,
        size: 28
      },
      {
        ...axis,
        size: 74,
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
        stroke: themeValue(style.colour),
        dash: style.dash,
        width: 1.5,
        paths: pathOf,
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

/** Tell of the marked range, and unmark it. */
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
