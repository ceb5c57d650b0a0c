import React from 'react';

import { useGpuDask } from '../components/context';
import { Meter } from '../components/meter';
import {
  formatBytes,
  formatPart,
  nameOf,
  percentOf,
  spilledBy
} from '../format';
import { IWorker } from '../model/api';

interface IWorkerRowProps {
  worker: IWorker;
  /** From 0 on. */
  index: number;
  /** How many there are, also those that are not drawn. */
  count: number;
}

/** One worker: its GPU, how full that is, and what it does. */
export const WorkerRow = React.memo(function WorkerRow({
  worker,
  index,
  count
}: IWorkerRowProps): JSX.Element {
  const { trans } = useGpuDask();
  const name = nameOf(worker, trans);
  const pid = worker.pid === null ? '' : trans.__('pid %1', worker.pid);
  return (
    <li aria-posinset={index + 1} aria-setsize={count}>
      <span className="jp-GpuDask-workerName" title={pid}>
        {name}
      </span>
      <WorkerMemory worker={worker} name={name} />
      <span className="jp-GpuDask-workerWork">
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
          percent={percentOf(used, total)}
          text={formatPart(used, total, trans, units)}
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
  const words = [
    tasks > 0 ? trans._n('%1 task', '%1 tasks', tasks) : trans.__('no tasks')
  ];
  if (worker.utilization !== null) {
    words.unshift(trans.__('%1 % busy', worker.utilization.toFixed(0)));
  }
  if (worker.pool_size) {
    const share = percentOf(worker.pool_used ?? 0, worker.pool_size);
    words.push(trans.__('pool %1 %', share.toFixed(0)));
  }
  const spilled = spilledBy(worker);
  if (spilled > 0) {
    words.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  return (
    <>
      {words.join(', ')}
      {worker.status !== 'running' && (
        <strong className="jp-GpuDask-odd">
          {' '}
          {worker.status.replace(/_/g, ' ')}
        </strong>
      )}
    </>
  );
}
