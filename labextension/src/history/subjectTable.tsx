import { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { IFigure, IGroup, ISubject } from './figures';
import { formatValue, ILineStyle } from './lines';

interface ISubjectTableProps {
  group: IGroup;
  /** The style of each line, by the key of its subject. */
  styles: ReadonlyMap<string, ILineStyle>;
  /** Keys of subjects that are not drawn. */
  hidden: ReadonlySet<string>;
  /** The moment whose figures are shown. */
  index: number;
  trans: TranslationBundle;
  onToggle: (key: string) => void;
}

/** Legend, switch and figures of each line. */
export function SubjectTable(props: ISubjectTableProps): JSX.Element {
  const { group, trans } = props;
  return (
    <div
      className="jp-GpuDask-subjects"
      tabIndex={0}
      role="region"
      aria-label={group.title}
    >
      <table>
        <thead>
          <tr>
            <th scope="col">{group.title}</th>
            {group.figures.map(figure => (
              <th key={figure.id} scope="col" className="jp-mod-figure">
                {figure.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {group.subjects.map((subject, number) => (
            <tr key={subject.key}>
              <th scope="row">
                <Switch {...props} subject={subject} />
              </th>
              {group.figures.map(figure => (
                <td key={figure.id}>
                  {textOf(figure, number, props.index, trans)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface ISwitchProps extends ISubjectTableProps {
  subject: ISubject;
}

function Switch(props: ISwitchProps): JSX.Element {
  const { subject, styles, hidden, onToggle } = props;
  const style = styles.get(subject.key);
  return (
    <label title={subject.details}>
      <input
        type="checkbox"
        checked={!hidden.has(subject.key)}
        onChange={() => onToggle(subject.key)}
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
}

function textOf(
  figure: IFigure,
  number: number,
  index: number,
  trans: TranslationBundle
): string {
  const value = figure.series[number][index] ?? null;
  return value === null ? '–' : formatValue(value, figure.unit, trans);
}
