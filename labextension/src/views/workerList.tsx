import React, { useLayoutEffect, useRef, useState } from 'react';

import { IWorker } from '../model/api';
import { WorkerRow } from './workerRow';

interface IWorkerListProps {
  workers: IWorker[];
  label: string;
}

/** More workers than these scroll in a window of their own. */
const MANY = 32;

/** So many rows are drawn above the window and below it. */
const SPARE = 8;

/** The workers of a cluster. */
export function WorkerList({ workers, label }: IWorkerListProps): JSX.Element {
  return workers.length > MANY ? (
    <WindowedList workers={workers} label={label} />
  ) : (
    <ul className="jp-GpuDask-workers" aria-label={label}>
      {rows(workers, 0, workers.length)}
    </ul>
  );
}

/** Draws those that can be seen; its rows are all of one height. */
function WindowedList({ workers, label }: IWorkerListProps): JSX.Element {
  const node = useRef<HTMLDivElement>(null);
  const [rowHeight, setRowHeight] = useState(0);
  const [top, setTop] = useState(0);
  const [room, setRoom] = useState(SPARE);

  useLayoutEffect(() => {
    const measure = (): void => {
      const row = node.current?.querySelector('li');
      const height = row?.getBoundingClientRect().height ?? 0;
      if (node.current && height > 0) {
        setRowHeight(height);
        setRoom(Math.ceil(node.current.clientHeight / height));
      }
    };
    const observer = new ResizeObserver(measure);
    if (node.current) {
      observer.observe(node.current);
    }
    return () => observer.disconnect();
  }, []);

  const count = workers.length;
  const from = Math.max(0, Math.min(top, count - room) - SPARE);
  const to = Math.min(count, top + room + SPARE);
  return (
    <div
      className="jp-GpuDask-workerWindow"
      ref={node}
      tabIndex={0}
      role="group"
      aria-label={label}
      onScroll={event => {
        const { scrollTop } = event.currentTarget;
        // In steps, so that not every frame draws.
        setTop(rowHeight ? stepDown(scrollTop / rowHeight) : 0);
      }}
    >
      <ul
        className="jp-GpuDask-workers"
        aria-label={label}
        style={{
          paddingBlock: `${from * rowHeight}px ${(count - to) * rowHeight}px`
        }}
      >
        {rows(workers, from, to)}
      </ul>
    </div>
  );
}

function stepDown(row: number): number {
  const step = SPARE / 2;
  return Math.floor(row / step) * step;
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
