import React from 'react';

import { useGpuDask } from '../components/context';
import { TabToolbar } from '../components/tabToolbar';
import { IFilter, Level } from './records';

/** The state of the controls. */
export interface ILogOptions extends IFilter {
  /** The name of the worker; empty for all. */
  worker: string;
  isFollowed: boolean;
  isWrapped: boolean;
}

interface ILogsToolbarProps {
  options: ILogOptions;
  /** The titles of the logs by the name of the worker. */
  titles: ReadonlyMap<string, string>;
  onChange: (options: ILogOptions) => void;
  onCopy: () => void;
  onDownload: () => void;
}

/** The filters and actions above the logs. */
export function LogsToolbar(props: ILogsToolbarProps): JSX.Element {
  const { options, titles, onChange, onCopy, onDownload } = props;
  const { trans } = useGpuDask();
  const button = 'jp-GpuDask-button jp-mod-text';
  const set = (changes: Partial<ILogOptions>): void =>
    onChange({ ...options, ...changes });
  return (
    <TabToolbar label={trans.__('Logs')}>
      <select
        aria-label={trans.__('Worker')}
        value={options.worker}
        onChange={event => set({ worker: event.target.value })}
      >
        <option value="">{trans.__('All logs')}</option>
        {[...titles].map(([name, title]) => (
          <option key={name} value={name}>
            {title}
          </option>
        ))}
      </select>
      <select
        aria-label={trans.__('Level')}
        value={options.level ?? ''}
        onChange={event => set({ level: toLevel(event.target.value) })}
      >
        <option value="">{trans.__('All lines')}</option>
        <option value="INFO">{trans.__('Info or higher')}</option>
        <option value="WARNING">{trans.__('Warnings and errors')}</option>
        <option value="ERROR">{trans.__('Errors')}</option>
      </select>
      <input
        type="search"
        aria-label={trans.__('Search')}
        placeholder={trans.__('Search')}
        value={options.text}
        onChange={event => set({ text: event.target.value })}
      />
      <label>
        <input
          type="checkbox"
          checked={options.isFollowed}
          onChange={event => set({ isFollowed: event.target.checked })}
        />
        {trans.__('Follow')}
      </label>
      <label>
        <input
          type="checkbox"
          checked={options.isWrapped}
          onChange={event => set({ isWrapped: event.target.checked })}
        />
        {trans.__('Wrap lines')}
      </label>
      <span className="jp-GpuDask-spacer" />
      <button type="button" className={button} onClick={onCopy}>
        {trans.__('Copy')}
      </button>
      <button type="button" className={button} onClick={onDownload}>
        {trans.__('Download')}
      </button>
    </TabToolbar>
  );
}

function toLevel(value: string): Level | null {
  return value === '' ? null : (value as Level);
}
