import { Clipboard } from '@jupyterlab/apputils';
import React, { useLayoutEffect, useRef, useState } from 'react';

import { formerName, workerNames } from '../cluster/names';
import { useGpuDask } from '../components/context';
import { download } from '../components/download';
import { ICluster } from '../model/api';
import { RestClient } from '../model/rest';
import { IGpuDask } from '../tokens';
import { ILogOptions, LogsToolbar } from './logsToolbar';
import { filterRecords, IRecord, parseLog } from './records';
import { ILogs, useLogs } from './useLogs';

interface ILogsViewProps {
  cluster: ICluster;
  rest: RestClient;
  isVisible: () => boolean;
}

/** The logs of the scheduler and the workers of a cluster, one below the other. */
export function LogsView(props: ILogsViewProps): JSX.Element {
  const { cluster, rest, isVisible } = props;
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
    rest,
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
        {records.length < count && (
          <span className="jp-GpuDask-secondary">
            {trans.__('%1 of %2 entries', records.length, count)}
          </span>
        )}
      </h3>
      <pre ref={node} tabIndex={0} aria-label={title} data-wrap={isWrapped}>
        {records.length === 0 &&
          (count === 0
            ? trans.__('The log is empty.')
            : trans.__('No line matches.'))}
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
