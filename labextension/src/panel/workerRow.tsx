import React from 'react';

import { spilledBytes } from '../cluster/snapshot';
import { useGpuDask } from '../components/context';
import { formatBytes, formatUsage, joinItems, percentage } from '../format';
import { IWorker } from '../model/api';
import { IGpuDask } from '../tokens';

interface IWorkerRowProps {
  worker: IWorker;
  /** Its name among the workers of its host. */
  name: string;
  /** The position in the list, from 0. */
  index: number;
  /** The number of workers in the list. */
  count: number;
}

/** A worker: its tasks, its memory, and its status. The GPUs of this machine have a section of their own. */
export const WorkerRow = React.memo(function WorkerRow({
  worker,
  name,
  index,
  count
}: IWorkerRowProps): JSX.Element {
  const gpuDask = useGpuDask();
  const { trans } = gpuDask;
  const tasks = taskText(worker, gpuDask);
  const memory = memoryItems(worker, gpuDask);
  const pid = worker.pid === null ? '' : trans.__('pid %1', worker.pid);
  return (
    <li
      aria-posinset={index + 1}
      aria-setsize={count}
      title={[tasks, ...memory, pid].filter(Boolean).join(', ')}
    >
      <span className="jp-GpuDask-workerName">{name}</span>
      <span className="jp-GpuDask-workerTasks">
        {tasks}
        {worker.status !== 'running' && (
          <strong className="jp-GpuDask-workerStatus">
            {' '}
            {worker.status.replace(/_/g, ' ')}
          </strong>
        )}
      </span>
      <span className="jp-GpuDask-workerMemory">{joinItems(memory)}</span>
    </li>
  );
});

/** The tasks that a worker runs, and those that are assigned to it and wait. */
function taskText(
  { executing, waiting }: IWorker,
  { trans }: IGpuDask
): string {
  if (executing + waiting === 0) {
    return trans.__('idle');
  }
  const running = trans.__('%1 running', executing);
  return waiting > 0 ? trans.__('%1, %2 assigned', running, waiting) : running;
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
  if (worker.held > 0) {
    parts.push(trans.__('%1 held', formatBytes(worker.held, units)));
  }
  const spilled = spilledBytes(worker);
  if (spilled > 0) {
    parts.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  return parts;
}
