import React, { useMemo } from 'react';
import uPlot from 'uplot';

import { useGpuDask } from '../views/context';
import { Chart } from './chart';
import { IGroup } from './figures';
import { formatValue, ILineStyle, styleOf } from './lines';
import { IRange } from './plot';
import { SubjectTable } from './subjectTable';

interface IGroupViewProps {
  group: IGroup;
  /** The style of each line, by the key of its subject. */
  styles: ReadonlyMap<string, ILineStyle>;
  /** Keys of subjects that are not drawn. */
  hidden: ReadonlySet<string>;
  times: number[];
  range: IRange;
  /** The moment whose figures are in the table. */
  index: number;
  /** Has the plots by title, as long as they are there. */
  plots: Map<string, uPlot>;
  onToggle: (key: string) => void;
  onZoom: (range: IRange) => void;
  onCursor: (index: number | null) => void;
}

/** The charts and the table of the GPUs, or of the workers. */
export function GroupView(props: IGroupViewProps): JSX.Element {
  const { group, styles, hidden, times, range, index, plots } = props;
  const { trans } = useGpuDask();
  const drawn = group.subjects.filter(({ key }) => !hidden.has(key));
  const lines = drawn.map(({ key, name }) => ({
    name,
    style: styles.get(key) ?? styleOf(0)
  }));
  // The same arrays as long as the figures are the same: the charts are drawn when these change.
  const series = useMemo(
    () =>
      group.figures.map(figure =>
        figure.series.filter(
          (_, number) => !hidden.has(group.subjects[number].key)
        )
      ),
    [group, hidden]
  );
  return (
    <section className="jp-GpuDask-group" aria-label={group.title}>
      <div className="jp-GpuDask-charts">
        {group.figures.map((figure, number) => {
          const title = trans.__('%1: %2', group.title, figure.title);
          return (
            <Chart
              key={figure.id}
              title={title}
              unit={figure.unit}
              top={figure.top}
              lines={lines}
              times={times}
              series={series[number]}
              range={range}
              format={value => formatValue(value, figure.unit, trans)}
              plotRef={plot =>
                plot ? plots.set(title, plot) : plots.delete(title)
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
        trans={trans}
        onToggle={props.onToggle}
      />
    </section>
  );
}
