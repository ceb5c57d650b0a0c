import React from 'react';

import { useWindowed } from '../components/windowing';
import { IWorker } from '../model/api';
import { WorkerRow } from './workerRow';

interface IWorkerListProps {
  workers: IWorker[];
  label: string;
}

/** Lists with more workers scroll separately. */
const MAX_PLAIN_ROWS = 32;

/** The workers of a cluster. */
export function WorkerList({ workers, label }: IWorkerListProps): JSX.Element {
  return workers.length > MAX_PLAIN_ROWS ? (
    <WindowedList workers={workers} label={label} />
  ) : (
    <ul className="jp-GpuDask-workers" aria-label={label}>
      {rows(workers, 0, workers.length)}
    </ul>
  );
}

/** A list that renders only the visible workers. */
function WindowedList({ workers, label }: IWorkerListProps): JSX.Element {
  const { ref, onScroll, from, to, above, below } = useWindowed(
    workers.length,
    'li'
  );
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
        {rows(workers, from, to)}
      </ul>
    </div>
  );
}

function rows(workers: IWorker[], from: number, to: number): JSX.Element[] {
  return workers
    .slice(from, to)
    .map((worker, index) => (
      <WorkerRow
        key={worker.name}
        worker={worker}
        index={from + index}
        count={workers.length}
      />
    ));
}
