import React, { RefObject, useLayoutEffect } from 'react';

import { workerNames } from '../cluster/names';
import { spilledBytes } from '../cluster/snapshot';
import { useGpuDask } from '../components/liveWidget';
import { useWindowed } from '../components/windowing';
import { formatBytes, formatUsage, joinItems, percentage } from '../format';
import { IWorker } from '../model/api';
import { IGpuDask } from '../tokens';

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
  if (worker.result_bytes > 0) {
    parts.push(trans.__('%1 held', formatBytes(worker.result_bytes, units)));
  }
  const spilled = spilledBytes(worker);
  if (spilled > 0) {
    parts.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  return parts;
}

/** The smallest height of a list, in pixels. */
const MIN_HEIGHT = 240;

/**
 * Give a scrolling list the free height of its section, but not more than its rows need.
 *
 * @param ref - the list; other lists with its class in the same section get an equal part
 */
export function useFreeHeight(ref: RefObject<HTMLElement>): void {
  useLayoutEffect(() => {
    const list = ref.current;
    const section = list?.closest<HTMLElement>('.jp-GpuDask-section');
    const body = section?.firstElementChild;
    if (!list || !section || !body) {
      return;
    }
    const fit = (): void => {
      const lists = body.getElementsByClassName(list.className).length;
      const free = section.clientHeight - (body as HTMLElement).offsetHeight;
      const height = list.offsetHeight + Math.floor(free / lists);
      const needed = list.scrollHeight + list.offsetHeight - list.clientHeight;
      list.style.height = `${Math.max(MIN_HEIGHT, Math.min(height, needed))}px`;
    };
    const observer = new ResizeObserver(fit);
    [section, body].forEach(each => observer.observe(each));
    return () => observer.disconnect();
  }, [ref]);
}
