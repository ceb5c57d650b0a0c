import React, { useEffect, useRef } from 'react';
import uPlot from 'uplot';

import { Series } from './figures';
import { createPlot, IPlotOptions, IRange, PLOT_HEIGHT } from './plot';
import { useThemeName } from './theme';

interface IChartProps extends IPlotOptions {
  title: string;
  times: number[];
  /** One for each line. */
  series: Series[];
  range: IRange;
  /** Takes the plot, or null when it is gone. */
  plotRef: (plot: uPlot | null) => void;
}

/** A figure of several subjects over time; what it says is in the table beside it too. */
export function Chart(props: IChartProps): JSX.Element {
  const { title, lines, times, series, range, plotRef } = props;
  const theme = useThemeName();
  const node = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
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
    plotRef(made);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
      plotRef(null);
    };
  }, [theme, names]);

  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData([times, ...series], false);
      plot.current?.setScale('x', range);
    });
  }, [theme, names, times, series, range.min, range.max]);

  return (
    <figure className="jp-GpuDask-chart">
      <figcaption>{title}</figcaption>
      <div ref={node} role="img" aria-label={title} />
    </figure>
  );
}
