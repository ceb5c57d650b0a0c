import React from 'react';

import { workerNames } from '../cluster/names';
import { spilledBytes } from '../cluster/snapshot';
import { useGpuDask } from '../components/liveWidget';
import {
  formatBytes,
  formatCount,
  formatUsage,
  joinItems,
  percentage
} from '../format';
import { IWorker } from '../model/api';
import { IGpuDask } from '../tokens';

interface IWorkerListProps {
  workers: IWorker[];
  label: string;
}

/** A worker, or the host of those that follow. */
type Row = IWorkerRowProps | { host: string };

/** Lists with more rows scroll separately. */
const MOST_ROWS = 32;

/** The workers of a cluster, by host if there are several. */
export function WorkerList({ workers, label }: IWorkerListProps): JSX.Element {
  const { trans } = useGpuDask();
  const rows = rowsOf(workers, workerNames(workers, trans, false));
  return (
    <ul
      className="jp-GpuDask-workers"
      aria-label={label}
      tabIndex={rows.length > MOST_ROWS ? 0 : undefined}
    >
      {rows.map(row =>
        'host' in row ? (
          <li key={`host ${row.host}`} className="jp-GpuDask-workerHost">
            {row.host}
          </li>
        ) : (
          <WorkerRow key={row.worker.name} {...row} />
        )
      )}
    </ul>
  );
}

/** The workers, which the server sorts by host, with a row for each host if there are several. */
function rowsOf(workers: IWorker[], names: ReadonlyMap<string, string>): Row[] {
  const areSeveral = workers.some(({ host }) => host !== workers[0].host);
  return workers.flatMap((worker, index): Row[] => {
    const isFirst = worker.host !== workers[index - 1]?.host;
    const name = names.get(worker.name) ?? worker.name;
    const row = { worker, name };
    return areSeveral && isFirst ? [{ host: worker.host }, row] : [row];
  });
}

interface IWorkerRowProps {
  worker: IWorker;
  /** Its name among the workers of its host. */
  name: string;
}

/** A worker: its tasks, its memory, and its status. The GPUs of this machine have a section of their own. */
function WorkerRow({ worker, name }: IWorkerRowProps): JSX.Element {
  const gpuDask = useGpuDask();
  const { trans } = gpuDask;
  const tasks = taskText(worker, gpuDask);
  const memory = memoryItems(worker, gpuDask);
  const pid = worker.pid === null ? '' : trans.__('pid %1', worker.pid);
  return (
    <li title={pid}>
      <span className="jp-GpuDask-workerName">{name}</span>
      <div className="jp-GpuDask-workerLoad">
        <span>
          {joinItems([tasks])}
          {worker.status !== 'running' && (
            <strong className="jp-GpuDask-workerStatus">
              {' '}
              {worker.status.replace(/_/g, ' ')}
            </strong>
          )}
        </span>
        <span>{joinItems(memory)}</span>
      </div>
    </li>
  );
}

/** The tasks that a worker runs, and those that are assigned to it and wait. */
function taskText(
  { executing, waiting }: IWorker,
  { trans }: IGpuDask
): string {
  if (executing + waiting === 0) {
    return trans.__('idle');
  }
  const running = trans.__('%1 running', formatCount(executing));
  return waiting > 0
    ? trans.__('%1, %2 assigned', running, formatCount(waiting))
    : running;
}

/**
 * The used part of the pool, the held results and the spilled bytes; the host memory of a worker without a GPU; the
 * utilization and the memory of a GPU on another machine.
 */
function memoryItems(worker: IWorker, { model, trans }: IGpuDask): string[] {
  const { units } = model.settings.value;
  const parts = [];
  if (model.gpus?.gpus.every(({ uuid }) => uuid !== worker.gpu_uuid)) {
    const { utilization, device_memory_used: used } = worker;
    const total = worker.device_memory_total;
    if (utilization !== null) {
      parts.push(trans.__('%1 %', utilization.toFixed(0)));
    }
    if (used !== null && total !== null) {
      parts.push(formatUsage(used, total, trans, units));
    }
  }
  if (worker.pool_size) {
    const share = percentage(worker.pool_used ?? 0, worker.pool_size);
    parts.push(trans.__('pool %1 %', share.toFixed(0)));
  }
  if (worker.gpu_index === null && worker.memory !== null) {
    parts.push(formatBytes(worker.memory, units));
  }
  if (worker.result_bytes > 0) {
    parts.push(trans.__('%1 held', formatBytes(worker.result_bytes, units)));
  }
  const spilled = spilledBytes(worker);
  if (spilled > 0) {
    parts.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  return parts;
}
