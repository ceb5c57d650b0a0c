/**
 * A chart of the history.
 */
import React, { useEffect, useRef } from 'react';
import uPlot from 'uplot';

import { useIsVisible } from '../components/card';
import { createPlot, IPlotOptions, useThemeName, IRange } from './plot';
import { Series } from './store';

/** A rendered chart. */
export interface IChart {
  canvas: HTMLCanvasElement;
  /** Draw the newest data, even if the chart is not visible. */
  draw: () => void;
}

interface IChartProps extends IPlotOptions {
  title: string;
  times: number[];
  /** The values of each line. */
  series: Series[];
  range: IRange;
  /** Called with the chart when it is created, and with null when it is removed. */
  chartRef: (chart: IChart | null) => void;
}

/** What a plot shows; it is drawn again when this changes. */
interface IDrawn {
  range: IRange;
  /** The oldest time. */
  first: number | undefined;
  /** The number of cells. */
  bands: number;
}

/** A chart of a metric over time. Its values are also in the table below, for screen readers. */
export function Chart(props: IChartProps): JSX.Element {
  const { title, lines, units, times, series, range, chartRef } = props;
  const theme = useThemeName();
  const node = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawn = useRef<IDrawn | null>(null);
  const bands = useRef(props.bands);
  bands.current = props.bands;
  const isVisible = useIsVisible(node);
  const draw = useRef<() => void>(() => undefined);
  draw.current = () => {
    const made = plot.current;
    const wanted = { range, first: times.at(0), bands: props.bands.length };
    if (made && !isUpToDate(drawn.current, wanted, made)) {
      drawn.current = wanted;
      made.batch(() => {
        made.setData([times, ...series], false);
        made.setScale('x', range);
      });
    }
  };
  const names = lines
    .map(({ name, style }) => name + style.color + style.dash)
    .join();

  useEffect(() => {
    if (!node.current) {
      return undefined;
    }
    const made = createPlot(node.current, () => bands.current, props);
    const observer = new ResizeObserver(([{ contentRect }]) =>
      made.setSize({ width: contentRect.width, height: contentRect.height })
    );
    observer.observe(node.current);
    plot.current = made;
    drawn.current = null;
    chartRef({ canvas: made.ctx.canvas, draw: () => draw.current() });
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
      chartRef(null);
    };
  }, [theme, units, names]);

  // After each render, because the series grow in place.
  useEffect(() => {
    if (isVisible) {
      draw.current();
    }
  });

  return (
    <figure className="jp-GpuDask-chart">
      <figcaption>{title}</figcaption>
      <div ref={node} role="img" aria-label={title} />
    </figure>
  );
}

/** A plot is drawn again when its lines have moved by this many pixels. */
const TOLERANCE = 2;

/** Whether a plot shows what it should within the tolerance. */
function isUpToDate(
  drawn: IDrawn | null,
  wanted: IDrawn,
  plot: uPlot
): boolean {
  if (drawn?.first !== wanted.first || drawn?.bands !== wanted.bands) {
    return false;
  }
  const { min, max } = wanted.range;
  const tolerance =
    TOLERANCE * ((max - min) / plot.bbox.width) * devicePixelRatio;
  return (
    Math.abs(min - drawn.range.min) < tolerance &&
    Math.abs(max - drawn.range.max) < tolerance
  );
}
