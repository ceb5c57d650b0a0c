import { TranslationBundle } from '@jupyterlab/translation';
import React, { useEffect, useRef } from 'react';

import { useGpuDask } from '../components/context';
import { useWindowed } from '../components/windowing';
import { Units } from '../format';
import { formatValue, ILineStyle } from './lineStyles';
import { IMetric, IGroup, ISubject } from './metrics';

interface ISubjectTableProps {
  group: IGroup;
  /** The style of each line, by the key of its subject. */
  styles: ReadonlyMap<string, ILineStyle>;
  /** Keys of subjects that are not drawn. */
  hidden: ReadonlySet<string>;
  /** The moment whose metrics are shown. */
  index: number;
  /** Draw these lines, or do not. */
  onToggle: (keys: string[], isDrawn: boolean) => void;
}

/** Legend, switch and metrics of each line; of many, the rows are drawn that can be seen. */
export function SubjectTable(props: ISubjectTableProps): JSX.Element {
  const { group, styles, hidden, onToggle } = props;
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const count = group.subjects.length;
  const { ref, onScroll, from, to, above, below } = useWindowed(
    count,
    'tbody tr:not([aria-hidden])'
  );
  return (
    <div
      className="jp-GpuDask-subjects"
      ref={ref}
      tabIndex={0}
      role="region"
      aria-label={group.title}
      onScroll={onScroll}
    >
      <table aria-rowcount={count + 1}>
        <thead>
          <tr>
            <th scope="col">
              <SwitchOfAll {...props} />
            </th>
            {group.metrics.map(metric => (
              <th key={metric.id} scope="col" className="jp-mod-metric">
                {metric.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          <Room height={above} />
          {group.subjects.slice(from, to).map((subject, number) => (
            <tr key={subject.key} aria-rowindex={from + number + 2}>
              <th scope="row">
                <Switch
                  subject={subject}
                  style={styles.get(subject.key)}
                  isDrawn={!hidden.has(subject.key)}
                  onToggle={onToggle}
                />
              </th>
              {group.metrics.map(metric => (
                <td key={metric.id}>
                  {textOf(metric, from + number, props.index, trans, units)}
                </td>
              ))}
            </tr>
          ))}
          <Room height={below} />
        </tbody>
      </table>
    </div>
  );
}

/** The place of rows that are not drawn. */
function Room({ height }: { height: number }): JSX.Element | null {
  return height > 0 ? <tr aria-hidden style={{ height }} /> : null;
}

/** All lines at once, in the head of the table. */
function SwitchOfAll({
  group,
  hidden,
  onToggle
}: ISubjectTableProps): JSX.Element {
  const keys = group.subjects.map(({ key }) => key);
  const drawn = keys.filter(key => !hidden.has(key)).length;
  const input = useRef<HTMLInputElement>(null);
  const isAll = drawn === keys.length;
  useEffect(() => {
    if (input.current) {
      input.current.indeterminate = drawn > 0 && !isAll;
    }
  }, [drawn, isAll]);
  const { trans } = useGpuDask();
  return (
    <label>
      <input
        ref={input}
        type="checkbox"
        checked={isAll}
        onChange={() => onToggle(keys, !isAll)}
      />
      <span>{group.title}</span>
      {!isAll && (
        <span className="jp-GpuDask-quiet">
          {trans.__('%1 of %2 drawn', drawn, keys.length)}
        </span>
      )}
    </label>
  );
}

interface ISwitchProps {
  subject: ISubject;
  style: ILineStyle | undefined;
  isDrawn: boolean;
  onToggle: (keys: string[], isDrawn: boolean) => void;
}

/** Not drawn again with each moment: a field takes React longer than all metrics of its row. */
const Switch = React.memo(function Switch(props: ISwitchProps): JSX.Element {
  const { subject, style, isDrawn, onToggle } = props;
  return (
    <label title={subject.details}>
      <input
        type="checkbox"
        checked={isDrawn}
        onChange={() => onToggle([subject.key], !isDrawn)}
      />
      <svg viewBox="0 0 18 4" aria-hidden="true" focusable="false">
        <line
          x2="18"
          y1="2"
          y2="2"
          stroke={style && `var(${style.colour})`}
          strokeDasharray={style?.dash.join(' ')}
        />
      </svg>
      <span>{subject.name}</span>
      <span className="jp-GpuDask-quiet">{subject.details}</span>
    </label>
  );
});

function textOf(
  metric: IMetric,
  number: number,
  index: number,
  trans: TranslationBundle,
  units: Units
): string {
  const value = metric.series[number][index] ?? null;
  return value === null ? '–' : formatValue(value, metric.unit, trans, units);
}
