import React, { useRef } from 'react';

import { useGpuDask } from '../components/context';
import { disabledProps } from '../components/focus';
import { TabToolbar } from '../components/tabToolbar';
import { timesIn } from '../times';
import { ChartChooser } from './chartChooser';
import { IGroup } from './metrics';

interface IHistoryToolbarProps {
  /** All groups, also with hidden charts. */
  groups: IGroup[];
  /** The length of the shown time range, in seconds. */
  span: number;
  isPaused: boolean;
  isZoomed: boolean;
  /** The time whose values the tables show, in seconds since the epoch; null if there are none. */
  time: number | null;
  /** Whether that is the newest time, and moves on. */
  isNow: boolean;
  onSpan: (span: number) => void;
  onPause: () => void;
  onResetZoom: () => void;
  onCsv: () => void;
  onPng: () => Promise<void>;
}

const MINUTES = [15, 5, 1];

/** The toolbar of the history. */
export function HistoryToolbar(props: IHistoryToolbarProps): JSX.Element {
  const { trans, language } = useGpuDask();
  const button = 'jp-GpuDask-button jp-mod-text';
  const reset = useRef<HTMLButtonElement>(null);
  return (
    <TabToolbar label={trans.__('History')}>
      <select
        aria-label={trans.__('Time range')}
        value={props.span}
        onChange={event => props.onSpan(Number(event.target.value))}
      >
        {MINUTES.map(minutes => (
          <option key={minutes} value={minutes * 60}>
            {trans._n('Last minute', 'Last %1 minutes', minutes)}
          </option>
        ))}
      </select>
      <button
        type="button"
        className={button}
        aria-pressed={props.isPaused}
        onClick={props.onPause}
      >
        {trans.__('Pause')}
      </button>
      <button
        ref={reset}
        type="button"
        className={button}
        title={trans.__('Drag in a chart to zoom, or press + in it')}
        {...disabledProps(reset, !props.isZoomed)}
        onClick={props.onResetZoom}
      >
        {trans.__('Reset zoom')}
      </button>
      <span className="jp-GpuDask-secondary">
        {props.isNow || props.time === null
          ? trans.__('Now')
          : timesIn(language).time(props.time)}
      </span>
      <span className="jp-GpuDask-spacer" />
      <ChartChooser groups={props.groups} />
      <button type="button" className={button} onClick={props.onCsv}>
        {trans.__('Save CSV')}
      </button>
      <button
        type="button"
        className={button}
        onClick={() => void props.onPng()}
      >
        {trans.__('Save PNG')}
      </button>
    </TabToolbar>
  );
}
