import React from 'react';

import { workerNames } from '../cluster/names';
import { useGpuDask } from '../components/context';
import { useWindowed } from '../components/windowing';
import { IWorker } from '../model/api';
import { useFreeHeight } from './freeHeight';
import { WorkerRow } from './workerRow';

interface IWorkerListProps {
  workers: IWorker[];
  label: string;
}

/** A worker with its name and its position among the workers, or the host of those that follow. */
type Row = { worker: IWorker; name: string; index: number } | { host: string };

/** Lists with more rows scroll separately. */
const MAX_PLAIN_ROWS = 32;

/** The workers of a cluster, by host if there are several. */
export function WorkerList({ workers, label }: IWorkerListProps): JSX.Element {
  const { trans } = useGpuDask();
  const rows = rowsOf(workers, workerNames(workers, trans, false));
  return rows.length > MAX_PLAIN_ROWS ? (
    <WindowedList rows={rows} count={workers.length} label={label} />
  ) : (
    <ul className="jp-GpuDask-workers" aria-label={label}>
      {rendered(rows, workers.length)}
    </ul>
  );
}

interface IWindowedListProps {
  rows: Row[];
  count: number;
  label: string;
}

/** A list that renders only the visible rows. */
function WindowedList({ rows, count, label }: IWindowedListProps): JSX.Element {
  const { ref, onScroll, from, to, above, below } = useWindowed(
    rows.length,
    'li'
  );
  useFreeHeight(ref);
  return (
    <div
      className="jp-GpuDask-workerWindow"
      ref={ref}
      tabIndex={0}
      role="group"
      aria-label={label}
      onScroll={onScroll}
    >
      <ul
        className="jp-GpuDask-workers"
        aria-label={label}
        style={{ paddingBlock: `${above}px ${below}px` }}
      >
        {rendered(rows.slice(from, to), count)}
      </ul>
    </div>
  );
}

/** The workers, which the server sorts by host, with a row for each host if there are several. */
function rowsOf(workers: IWorker[], names: ReadonlyMap<string, string>): Row[] {
  const areSeveral = workers.some(({ host }) => host !== workers[0].host);
  return workers.flatMap((worker, index): Row[] => {
    const isFirst = worker.host !== workers[index - 1]?.host;
    const name = names.get(worker.name) ?? worker.name;
    const row = { worker, name, index };
    return areSeveral && isFirst ? [{ host: worker.host }, row] : [row];
  });
}

function rendered(rows: Row[], count: number): JSX.Element[] {
  return rows.map(row =>
    'host' in row ? (
      <li key={`host ${row.host}`} className="jp-GpuDask-workerHost">
        {row.host}
      </li>
    ) : (
      <WorkerRow
        key={row.worker.name}
        worker={row.worker}
        name={row.name}
        index={row.index}
        count={count}
      />
    )
  );
}
