import React from 'react';

import { spilledBytes, workerName } from '../cluster/summary';
import { useGpuDask } from '../components/context';
import { Meter } from '../components/meter';
import { formatBytes, formatUsage, percentage } from '../format';
import { IWorker } from '../model/api';

interface IWorkerRowProps {
  worker: IWorker;
  /** The position in the list, from 0. */
  index: number;
  /** The number of workers in the list. */
  count: number;
}

/** A worker: its GPU, memory, tasks and status. */
export const WorkerRow = React.memo(function WorkerRow({
  worker,
  index,
  count
}: IWorkerRowProps): JSX.Element {
  const { trans } = useGpuDask();
  const name = workerName(worker, trans);
  const pid = worker.pid === null ? '' : trans.__('pid %1', worker.pid);
  return (
    <li aria-posinset={index + 1} aria-setsize={count}>
      <span className="jp-GpuDask-workerName" title={pid}>
        {name}
      </span>
      <WorkerMemory worker={worker} name={name} />
      <span className="jp-GpuDask-workerDetails">
        <Details worker={worker} />
      </span>
    </li>
  );
});

function WorkerMemory({
  worker,
  name
}: {
  worker: IWorker;
  name: string;
}): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const { device_memory_used: used, device_memory_total: total } = worker;
  if (used !== null && total !== null) {
    return (
      <>
        <Meter
          label={trans.__('%1 memory', name)}
          percent={percentage(used, total)}
          text={formatUsage(used, total, trans, units)}
          kind="memory"
        />
        <span className="jp-GpuDask-value" aria-hidden="true">
          {formatBytes(used, units)}
        </span>
      </>
    );
  }
  return (
    <span className="jp-GpuDask-value jp-mod-wide">
      {worker.memory === null ? '' : formatBytes(worker.memory, units)}
    </span>
  );
}

function Details({ worker }: { worker: IWorker }): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const tasks = worker.executing + worker.waiting;
  const parts = [
    tasks > 0 ? trans._n('%1 task', '%1 tasks', tasks) : trans.__('no tasks')
  ];
  if (worker.utilization !== null) {
    parts.unshift(trans.__('%1 % busy', worker.utilization.toFixed(0)));
  }
  if (worker.pool_size) {
    const share = percentage(worker.pool_used ?? 0, worker.pool_size);
    parts.push(trans.__('pool %1 %', share.toFixed(0)));
  }
  const spilled = spilledBytes(worker);
  if (spilled > 0) {
    parts.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  return (
    <>
      {parts.join(', ')}
      {worker.status !== 'running' && (
        <strong className="jp-GpuDask-workerStatus">
          {' '}
          {worker.status.replace(/_/g, ' ')}
        </strong>
      )}
    </>
  );
}
