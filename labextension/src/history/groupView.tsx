import React from 'react';

import { useGpuDask } from '../components/context';
import { Chart, IChart } from './chart';
import { formatValue, ILineStyle, styleOf } from './lineStyles';
import { IGroup } from './metrics';
import { SubjectTable } from './metricsTable';
import { IRange } from './plot';

interface IGroupViewProps {
  group: IGroup;
  /** The style of each line, by the key of its subject. */
  styles: ReadonlyMap<string, ILineStyle>;
  /** Keys of subjects that are not drawn. */
  hidden: ReadonlySet<string>;
  times: number[];
  range: IRange;
  /** The moment whose metrics are in the table. */
  index: number;
  /** Has the charts by title, as long as they are there. */
  charts: Map<string, IChart>;
  onToggle: (keys: string[], isDrawn: boolean) => void;
  onZoom: (range: IRange) => void;
  onCursor: (index: number | null) => void;
}

/** The charts and the table of the GPUs, or of the workers. */
export function GroupView(props: IGroupViewProps): JSX.Element {
  const { group, styles, hidden, times, range, index, charts } = props;
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const isDrawn = (_: unknown, number: number): boolean =>
    !hidden.has(group.subjects[number].key);
  const lines = group.subjects.filter(isDrawn).map(({ key, name }) => ({
    name,
    style: styles.get(key) ?? styleOf(0)
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
              series={metric.series.filter(isDrawn)}
              range={range}
              format={value => formatValue(value, metric.unit, trans, units)}
              chartRef={chart =>
                chart ? charts.set(title, chart) : charts.delete(title)
              }
              onZoom={props.onZoom}
              onCursor={props.onCursor}
            />
          );
        })}
      </div>
      <SubjectTable
        group={group}
        styles={styles}
        hidden={hidden}
        index={index}
        onToggle={props.onToggle}
      />
    </section>
  );
}
