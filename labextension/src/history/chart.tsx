import React, { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';

import { createPlot, IPlotOptions, IRange, PLOT_HEIGHT } from './plot';
import { Series } from './store';
import { useThemeName } from './theme';

/** A chart that is there. */
export interface IChart {
  canvas: HTMLCanvasElement;
  /** Draw what it has to show now, also where nobody sees it. */
  draw: () => void;
}

interface IChartProps extends IPlotOptions {
  title: string;
  times: number[];
  /** One for each line. */
  series: Series[];
  range: IRange;
  /** Takes the chart, or null when it is gone. */
  chartRef: (chart: IChart | null) => void;
}

/** What a plot shows: as long as that is so, it need not be drawn. */
interface IDrawn {
  range: IRange;
  /** The oldest moment that it knows of. */
  first: number | undefined;
}

/** A metric of several subjects over time; what it says is in the table beside it too. */
export function Chart(props: IChartProps): JSX.Element {
  const { title, lines, units, times, series, range, chartRef } = props;
  const theme = useThemeName();
  const node = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const drawn = useRef<IDrawn | null>(null);
  const isSeen = useSeen(node);
  const draw = useRef<() => void>(() => undefined);
  draw.current = () => {
    const made = plot.current;
    const wanted = { range, first: times.at(0) };
    if (made && !isUpToDate(drawn.current, wanted, made)) {
      drawn.current = wanted;
      made.batch(() => {
        made.setData([times, ...series], false);
        made.setScale('x', range);
      });
    }
  };
  const names = lines
    .map(({ name, style }) => name + style.colour + style.dash)
    .join();

  useEffect(() => {
    if (!node.current) {
      return undefined;
    }
    const made = createPlot(node.current, props);
    const observer = new ResizeObserver(([entry]) =>
      made.setSize({ width: entry.contentRect.width, height: PLOT_HEIGHT })
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

  // With each drawing of the view: the lines grow in place.
  useEffect(() => {
    if (isSeen) {
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

/** Whether a node is in view: what is scrolled out of it need not be drawn. */
function useSeen(node: React.RefObject<HTMLElement>): boolean {
  const [isSeen, setSeen] = useState(true);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) =>
      setSeen(entry.isIntersecting)
    );
    if (node.current) {
      observer.observe(node.current);
    }
    return () => observer.disconnect();
  }, []);
  return isSeen;
}

/** What is drawn may be less than so many pixels off. */
const NEAR = 2;

/** Whether what is drawn is as good as what is wanted. */
function isUpToDate(
  drawn: IDrawn | null,
  wanted: IDrawn,
  plot: uPlot
): boolean {
  if (!drawn || drawn.first !== wanted.first) {
    return false;
  }
  const { min, max } = wanted.range;
  const near = NEAR * ((max - min) / plot.bbox.width) * devicePixelRatio;
  return (
    Math.abs(min - drawn.range.min) < near &&
    Math.abs(max - drawn.range.max) < near
  );
}
