/**
 * The logs of a cluster, with their filters.
 */
import { Clipboard } from '@jupyterlab/apputils';
import React, { useEffect, useLayoutEffect, useRef, useState } from 'react';

import { formerName, workerNames } from '../cluster/names';
import { useGpuDask } from '../components/liveWidget';
import { download, TabToolbar } from '../components/liveTab';
import { errorMessage } from '../errors';
import { ICluster } from '../model/api';
import { IGpuDask } from '../tokens';
import { filterRecords, IFilter, IRecord, Level, parseLog } from './records';

interface ILogsViewProps {
  cluster: ICluster;
  isVisible: () => boolean;
}

/** The logs of the scheduler and the workers of a cluster, one below the other. */
export function LogsView(props: ILogsViewProps): JSX.Element {
  const { cluster, isVisible } = props;
  const gpuDask = useGpuDask();
  const { trans } = gpuDask;
  const [options, setOptions] = useState<ILogOptions>({
    worker: '',
    level: null,
    text: '',
    isFollowed: true,
    isWrapped: true
  });
  const { logs, problem } = useLogs(
    cluster.kernel_id,
    options.isFollowed,
    isVisible
  );
  const titles = titlesOf(logs ?? {}, cluster, gpuDask);
  const shown = [...titles]
    .filter(([name]) => !options.worker || name === options.worker)
    .map(([name, title]) => {
      const records = parseLog(logs?.[name] ?? '');
      const filtered = filterRecords(records, options);
      return { name, title, count: records.length, records: filtered };
    });
  const text = (): string =>
    shown
      .map(({ title, records }) =>
        [`# ${title}`, ...records.map(each => each.text)].join('\n')
      )
      .join('\n\n') + '\n';
  return (
    <>
      <LogsToolbar
        options={options}
        titles={titles}
        onChange={setOptions}
        onCopy={() => Clipboard.copyToSystem(text())}
        onDownload={() =>
          download(
            new Blob([text()], { type: 'text/plain' }),
            trans.__('Logs of %1.txt', cluster.name).replace(/\//g, '-')
          )
        }
      />
      <p className="jp-GpuDask-secondary" role="status">
        {problem}
      </p>
      {shown.map(log => (
        <Log
          key={log.name}
          {...log}
          isFollowed={options.isFollowed}
          isWrapped={options.isWrapped}
        />
      ))}
    </>
  );
}

interface ILogProps {
  title: string;
  records: IRecord[];
  /** The number of records without a filter; users read of entries. */
  count: number;
  isFollowed: boolean;
  isWrapped: boolean;
}

/** The log of a process; its end is shown while it is followed. */
function Log(props: ILogProps): JSX.Element {
  const { title, records, count, isFollowed, isWrapped } = props;
  const { trans } = useGpuDask();
  const node = useRef<HTMLPreElement>(null);
  const newest = records.at(-1)?.text;
  useLayoutEffect(() => {
    if (isFollowed && node.current) {
      node.current.scrollTop = node.current.scrollHeight;
    }
  }, [isFollowed, isWrapped, records.length, newest]);
  return (
    <section className="jp-GpuDask-log">
      <h3>
        {title}
        <span className="jp-GpuDask-secondary">
          {count === 0
            ? trans.__('empty')
            : records.length < count &&
              trans.__('%1 of %2 entries', records.length, count)}
        </span>
      </h3>
      <pre
        ref={node}
        tabIndex={0}
        aria-label={title}
        data-wrap={isWrapped}
        hidden={records.length === 0}
      >
        {records.map((record, index) => (
          <span key={index} data-level={record.level}>
            {record.text}
            {'\n'}
          </span>
        ))}
      </pre>
    </section>
  );
}

/** The titles of the logs: the scheduler first, then the workers by GPU or number. */
function titlesOf(
  logs: ILogs,
  cluster: ICluster,
  { model, trans }: IGpuDask
): ReadonlyMap<string, string> {
  const now = model.clusters.get(cluster.kernel_id) ?? cluster;
  const workers = now.state?.workers ?? cluster.state?.workers ?? [];
  const { supervisor, ...others } = logs;
  const names = workerNames(workers, trans, true);
  const gpus = model.gpus?.gpus ?? [];
  const titles = Object.keys(others).map((name): [string, string] => [
    name,
    names.get(name) ?? formerName(name, gpus, trans)
  ]);
  titles.sort(([, one], [, other]) =>
    one.localeCompare(other, undefined, { numeric: true })
  );
  return new Map([
    ...(supervisor === undefined
      ? []
      : [['supervisor', trans.__('Scheduler')] as const]),
    ...titles
  ]);
}

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

/** Milliseconds between two requests. */
const INTERVAL = 2000;

/** The text of each log by the name of the worker; `supervisor` is the scheduler's. */
export interface ILogs {
  [worker: string]: string;
}

/**
 * @param kernelId - the kernel of the cluster
 * @param isFollowed - whether the logs are loaded again
 * @param isVisible - whether they are visible; hidden ones are not loaded
 * @returns the last known logs, null before they are loaded; and why they are not up to date
 */
export function useLogs(
  kernelId: string,
  isFollowed: boolean,
  isVisible: () => boolean
): { logs: ILogs | null; problem: string } {
  const { model, rest, trans } = useGpuDask();
  const [logs, setLogs] = useState<ILogs | null>(null);
  const [problem, setProblem] = useState('');

  useEffect(() => {
    let isOver = false;
    let isLoading = false;
    const load = async (): Promise<void> => {
      const cluster = model.clusters.get(kernelId);
      if (isLoading || !cluster) {
        setProblem(cluster ? '' : trans.__('The cluster is closed.'));
        return;
      }
      isLoading = true;
      try {
        const loaded = await read(cluster);
        if (!isOver) {
          setLogs(loaded);
          setProblem('');
        }
      } catch (error) {
        if (!isOver) {
          setProblem(errorMessage(error, trans));
        }
      } finally {
        isLoading = false;
      }
    };
    const read = async (cluster: ICluster): Promise<ILogs> =>
      cluster.status === 'ready'
        ? rest.logs(kernelId)
        : { supervisor: cluster.log };
    void load();
    if (!isFollowed) {
      return () => void (isOver = true);
    }
    const timer = setInterval(() => isVisible() && void load(), INTERVAL);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [kernelId, isFollowed]);

  return { logs, problem };
}
