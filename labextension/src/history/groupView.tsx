import React from 'react';

import { useGpuDask } from '../components/context';
import { timesIn } from '../times';
import { Chart, IChart } from './charts/chart';
import { ILineStyle, lineStyle } from './charts/lineStyles';
import { formatValue } from './format';
import { IGroup } from './metrics';
import { MetricsTable } from './metricsTable';
import { IRange } from './range';

interface IGroupViewProps {
  group: IGroup;
  /** The style of each line, by the key of its source. */
  styles: ReadonlyMap<string, ILineStyle>;
  /** The keys of the sources whose lines are hidden. */
  hidden: ReadonlySet<string>;
  times: number[];
  range: IRange;
  /** The index of the time whose values the table shows. */
  index: number;
  /** The rendered charts by title. */
  charts: Map<string, IChart>;
  onToggle: (keys: string[], isShown: boolean) => void;
  onZoom: (range: IRange) => void;
  /** Called when a key is pressed in a chart. */
  onKeyDown: React.KeyboardEventHandler;
  onCursor: (index: number | null) => void;
}

/** The charts and the table of the GPUs, or of the workers. */
export function GroupView(props: IGroupViewProps): JSX.Element {
  const { group, styles, hidden, times, range, index, charts } = props;
  const { model, trans, language } = useGpuDask();
  const { units } = model.settings.value;
  const isShown = (_: unknown, number: number): boolean =>
    !hidden.has(group.sources[number].key);
  const lines = group.sources.filter(isShown).map(({ key, name }) => ({
    name,
    style: styles.get(key) ?? lineStyle(0)
  }));
  return (
    <section className="jp-GpuDask-group" aria-label={group.title}>
      <div className="jp-GpuDask-charts">
        {group.metrics.map(metric => {
          const title = trans.__('%1: %2', group.title, metric.title);
          return (
            <Chart
              key={metric.id}
              title={title}
              unit={metric.unit}
              units={units}
              top={metric.top}
              lines={lines}
              times={times}
              series={metric.series.filter(isShown)}
              range={range}
              format={value => formatValue(value, metric.unit, trans, units)}
              formatTimes={(each, step) => timesIn(language).ticks(each, step)}
              chartRef={chart =>
                chart ? charts.set(title, chart) : charts.delete(title)
              }
              onZoom={props.onZoom}
              onKeyDown={props.onKeyDown}
              onCursor={props.onCursor}
            />
          );
        })}
      </div>
      <MetricsTable
        group={group}
        styles={styles}
        hidden={hidden}
        index={index}
        onToggle={props.onToggle}
      />
    </section>
  );
}
