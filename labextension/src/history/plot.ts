/**
 * The uPlot charts: styles and paths of their lines, configuration, and the keys that change the time range.
 */
import { useEffect, useState } from 'react';
import uPlot from 'uplot';

import { Units } from '../format';
import { IMetric, ISource } from './metrics';

const ATTRIBUTE = 'data-jp-theme-name';

/** The name of the theme; canvases must be drawn again when it changes. */
export function useThemeName(): string | null {
  const [name, setName] = useState(document.body.getAttribute(ATTRIBUTE));
  useEffect(() => {
    const observer = new MutationObserver(() =>
      setName(document.body.getAttribute(ATTRIBUTE))
    );
    observer.observe(document.body, { attributeFilter: [ATTRIBUTE] });
    return () => observer.disconnect();
  }, []);
  return name;
}

/** The current value of a CSS variable of the theme. */
export function themeValue(variable: string): string {
  return getComputedStyle(document.body).getPropertyValue(variable).trim();
}

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
  bands: IBand[];
}

/** A cell in the charts. */
export interface IBand {
  from: number;
  to: number;
  color: string;
  /** What is shown while the mouse is on it. */
  title: string;
  onClick: () => void;
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

/** The height of the stripe at the top of a band, and the smallest width of a band, in pixels. */
const STRIPE = 4;
const NARROWEST = 2;

/** Draw the cells behind the lines. */
function drawBands({ ctx, bbox, valToPos }: uPlot, bands: IBand[]): void {
  const { left, top, width, height } = bbox;
  ctx.save();
  for (const { from, to, color } of bands) {
    const start = Math.max(left, valToPos(from, 'x', true));
    const end = Math.min(
      left + width,
      Math.max(start + NARROWEST, valToPos(to, 'x', true))
    );
    if (end > start) {
      ctx.fillStyle = color;
      ctx.globalAlpha = 0.12;
      ctx.fillRect(start, top, end - start, height);
      ctx.globalAlpha = 1;
      ctx.fillRect(start, top, end - start, STRIPE * devicePixelRatio);
    }
  }
  ctx.restore();
}

/** The band at a place of the plot in CSS pixels; of several the newest, which is the first. */
function bandAt(
  plot: uPlot,
  left: number | undefined,
  bands: IBand[]
): IBand | undefined {
  const at = (pixels: number): number =>
    plot.posToVal((left ?? NaN) + pixels, 'x');
  return bands.find(
    ({ from, to }) => from <= at(NARROWEST) && to >= at(-NARROWEST)
  );
}

/** Show what band the mouse is on, and follow a click on it. */
function followBands(plot: uPlot, bands: () => IBand[]): void {
  let pressed = 0;
  const { over } = plot;
  over.addEventListener('mousedown', event => (pressed = event.clientX));
  over.addEventListener('mousemove', () => {
    const band = bandAt(plot, plot.cursor.left, bands());
    over.title = band?.title ?? '';
    over.style.cursor = band ? 'pointer' : '';
  });
  over.addEventListener('click', ({ clientX }) => {
    if (Math.abs(clientX - pressed) <= NARROWEST) {
      bandAt(plot, plot.cursor.left, bands())?.onClick();
    }
  });
}

/** Create a plot without data, in the colors of the theme; `bands` gives the current cells. */
export function createPlot(
  node: HTMLElement,
  bands: () => IBand[],
  {
    unit,
    units,
    top,
    lines,
    format,
    formatTimes,
    onZoom,
    onCursor
  }: Omit<IPlotOptions, 'bands'>
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
        points: { show: false }
      }))
    ],
    hooks: {
      init: [plot => followBands(plot, bands)],
      drawClear: [plot => drawBands(plot, bands())],
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
