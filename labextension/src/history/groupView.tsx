import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ClusterBadge } from '../components/clusterName';
import { useGpuDask } from '../components/liveWidget';
import { Units } from '../format';
import { timesIn } from '../times';
import { Chart, IChart } from './chart';
import { formatValue, IGroup, IMetric, ISource } from './metrics';
import { IBand, ILineStyle, lineStyle, IRange } from './plot';

interface IGroupViewProps {
  group: IGroup;
  /** The same without the hidden lines. */
  shown: IGroup;
  /** The style of each line, by the key of its source. */
  styles: ReadonlyMap<string, ILineStyle>;
  /** The keys of the sources whose lines are hidden. */
  hidden: ReadonlySet<string>;
  times: number[];
  bands: IBand[];
  range: IRange;
  /** The index of the time whose values the table shows. */
  index: number;
  /** The rendered charts by title. */
  charts: Map<string, IChart>;
  /** Show or hide the lines of these sources. */
  onToggle: (keys: string[], isShown: boolean) => void;
  onZoom: (range: IRange) => void;
  onCursor: (index: number | null) => void;
}

/** The charts and the table of the GPUs, or of the workers. */
export function GroupView(props: IGroupViewProps): JSX.Element {
  const { group, shown, styles, times, range, charts } = props;
  const { model, trans, language } = useGpuDask();
  const { units } = model.settings.value;
  const lines = shown.sources.map(({ key, name }) => ({
    name,
    style: styles.get(key) ?? lineStyle(0)
  }));
  return (
    <section className="jp-GpuDask-group" aria-label={group.title}>
      <div className="jp-GpuDask-charts">
        {shown.metrics.map(metric => {
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
              bands={props.bands}
              series={metric.series}
              range={range}
              format={value => formatValue(value, metric.unit, trans, units)}
              formatTimes={(each, step) => timesIn(language).ticks(each, step)}
              chartRef={chart =>
                chart ? charts.set(title, chart) : charts.delete(title)
              }
              onZoom={props.onZoom}
              onCursor={props.onCursor}
            />
          );
        })}
      </div>
      <MetricsTable {...props} />
    </section>
  );
}

type MetricsTableProps = Pick<
  IGroupViewProps,
  'group' | 'styles' | 'hidden' | 'index' | 'onToggle'
>;

/** A table with a legend, a checkbox and the values of each line. */
function MetricsTable(props: MetricsTableProps): JSX.Element {
  const { group, styles, hidden, onToggle } = props;
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  return (
    <div
      className="jp-GpuDask-metricsTable"
      tabIndex={0}
      role="region"
      aria-label={trans.__('%1: values', group.title)}
    >
      <table>
        <thead>
          <tr>
            <th scope="col">
              <AllLinesCheckbox {...props} />
            </th>
            {group.metrics.map(metric => (
              <th key={metric.id} scope="col" className="jp-mod-metric">
                {metric.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {group.sources.map((source, number) => (
            <tr key={source.key}>
              <th scope="row">
                <LineCheckbox
                  source={source}
                  style={styles.get(source.key)}
                  isShown={!hidden.has(source.key)}
                  onToggle={onToggle}
                />
              </th>
              {group.metrics.map(metric => (
                <td key={metric.id}>
                  <span>
                    {cellText(metric, number, props.index, trans, units)}
                  </span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The checkbox that shows or hides all lines. */
function AllLinesCheckbox({
  group,
  hidden,
  onToggle
}: MetricsTableProps): JSX.Element {
  const keys = group.sources.map(({ key }) => key);
  const shown = keys.filter(key => !hidden.has(key)).length;
  const isAll = shown === keys.length;
  const { trans } = useGpuDask();
  return (
    <label>
      <input
        ref={input => {
          if (input) {
            input.indeterminate = shown > 0 && !isAll;
          }
        }}
        type="checkbox"
        checked={isAll}
        onChange={() => onToggle(keys, !isAll)}
      />
      <span>{group.title}</span>
      {!isAll && (
        <span className="jp-GpuDask-secondary">
          {trans.__('%1 of %2 shown', shown, keys.length)}
        </span>
      )}
    </label>
  );
}

interface ILineCheckboxProps {
  source: ISource;
  style: ILineStyle | undefined;
  isShown: boolean;
  onToggle: (keys: string[], isShown: boolean) => void;
}

/** Memoized, because rendering a checkbox takes longer than all values of its row. */
const LineCheckbox = React.memo(function LineCheckbox(
  props: ILineCheckboxProps
): JSX.Element {
  const { source, style, isShown, onToggle } = props;
  return (
    <label title={source.details}>
      <input
        type="checkbox"
        checked={isShown}
        onChange={() => onToggle([source.key], !isShown)}
      />
      <svg viewBox="0 0 18 4" aria-hidden="true" focusable="false">
        <line
          x2="18"
          y1="2"
          y2="2"
          stroke={style && `var(${style.color})`}
          strokeDasharray={style?.dash.join(' ')}
        />
      </svg>
      <span>{source.name}</span>
      <ClusterBadge kernelId={source.kernelId} />
      <span className="jp-GpuDask-secondary">{source.details}</span>
    </label>
  );
});

function cellText(
  metric: IMetric,
  number: number,
  index: number,
  trans: TranslationBundle,
  units: Units
): string {
  const value = metric.series[number][index] ?? null;
  return value === null ? '–' : formatValue(value, metric.unit, trans, units);
}
