import React, { useRef } from 'react';

import { useGpuDask } from '../components/context';
import { chartId, IGroup } from './metrics';

interface IChartChooserProps {
  /** All groups, also with hidden charts. */
  groups: IGroup[];
}

/** A button that opens a list of all charts, in which they are shown and hidden. */
export function ChartChooser({ groups }: IChartChooserProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const { settings } = model;
  const { hiddenCharts } = settings.value;
  const details = useRef<HTMLDetailsElement>(null);
  const toggle = (id: string): void => {
    const others = hiddenCharts.filter(each => each !== id);
    void settings.source?.set?.(
      'hiddenCharts',
      others.length < hiddenCharts.length ? others : [...others, id]
    );
  };
  const close = (): void => details.current?.removeAttribute('open');
  return (
    <details
      ref={details}
      className="jp-GpuDask-chooser"
      onBlur={({ currentTarget, relatedTarget }) => {
        // A click on a label leaves the checkbox without a focused element for a moment.
        if (relatedTarget && !currentTarget.contains(relatedTarget)) {
          close();
        }
      }}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          close();
          details.current?.querySelector('summary')?.focus();
        }
      }}
    >
      <summary className="jp-GpuDask-button jp-mod-text">
        {trans.__('Charts')}
      </summary>
      <div className="jp-GpuDask-chooserList">
        {groups.map(group => (
          <fieldset key={group.id}>
            <legend>{group.title}</legend>
            {group.metrics.map(metric => {
              const id = chartId(group, metric);
              return (
                <label key={id}>
                  <input
                    type="checkbox"
                    checked={!hiddenCharts.includes(id)}
                    onChange={() => toggle(id)}
                  />
                  {metric.title}
                </label>
              );
            })}
          </fieldset>
        ))}
      </div>
    </details>
  );
}
