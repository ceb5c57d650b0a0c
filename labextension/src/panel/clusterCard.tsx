import React from 'react';

import {
  reasonText,
  resultBytes,
  snapshot,
  spilledBytes,
  taskCounts
} from '../cluster/snapshot';
import { wantedSentences } from '../cluster/warnings';
import { CommandIDs } from '../commandIDs';
import { Card } from '../components/card';
import { CodeText } from '../components/codeText';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/context';
import { useKeptFocus } from '../components/focus';
import { StateLabel } from '../components/stateLabel';
import { formatBytes, joinItems, sum } from '../format';
import { ICluster } from '../model/api';
import { notebookOpener } from '../notebook/notebookOpener';
import { CLIENT_CODE } from '../snippets';
import { ClusterActions } from './clusterActions';
import { WorkerList } from './workerList';

interface IClusterCardProps {
  cluster: ICluster;
  isCurrent: boolean;
}

/** A cluster: its notebook, state, buttons and workers. */
export function ClusterCard({
  cluster,
  isCurrent
}: IClusterCardProps): JSX.Element {
  const gpuDask = useGpuDask();
  const { model, trans } = gpuDask;
  const { showWorkers } = model.settings.value;
  const now = snapshot(cluster, gpuDask);
  const reason = reasonText(now);
  return (
    <Card
      version={[
        cluster.name,
        now.state,
        now.engine,
        reason,
        cluster.notes,
        cluster.given_over_at
      ].join()}
      data-current={isCurrent}
      aria-label={trans.__('Cluster of %1', cluster.name)}
    >
      <div
        className="jp-GpuDask-cardHeader"
        // In another notebook the code would get another cluster.
        draggable={isCurrent && cluster.status === 'ready'}
        onDragStart={dragCode}
      >
        <h3>
          <NotebookName cluster={cluster} />
        </h3>
        <span className="jp-GpuDask-details">{now.engine}</span>
      </div>
      <div className="jp-GpuDask-stateLine">
        <StateLabel now={now} />
        {cluster.status === 'ready' && <TaskStatus cluster={cluster} />}
      </div>
      {reason && (
        <p className="jp-GpuDask-reason">
          <CodeText text={reason} />
        </p>
      )}
      <Notes cluster={cluster} />
      <Wanted cluster={cluster} />
      <ClusterActions cluster={cluster} starts={now.starts} />
      {cluster.status === 'ready' && cluster.state && showWorkers && (
        <WorkerList
          workers={cluster.state.workers}
          label={trans.__('Workers of %1', cluster.name)}
        />
      )}
    </Card>
  );
}

/** The name of the notebook: a button that shows it, if it can be shown. */
function NotebookName({ cluster }: { cluster: ICluster }): JSX.Element {
  const gpuDask = useGpuDask();
  const ref = useKeptFocus();
  const show = notebookOpener(gpuDask, cluster);
  const paths = cluster.notebooks.join('\n') || cluster.name;
  return show ? (
    <button
      ref={ref}
      type="button"
      className="jp-GpuDask-name jp-GpuDask-link"
      title={gpuDask.trans.__('Show %1', paths)}
      onClick={show}
    >
      {cluster.name}
    </button>
  ) : (
    <span className="jp-GpuDask-name" title={paths}>
      {cluster.name}
    </span>
  );
}

/** Drag the code that gets the Dask client; an editor inserts it where it is dropped. */
function dragCode({ dataTransfer }: React.DragEvent): void {
  dataTransfer.effectAllowed = 'copy';
  dataTransfer.setData('text/plain', CLIENT_CODE);
}

/** The tasks, spilled bytes and results of a cluster. */
function TaskStatus({ cluster }: { cluster: ICluster }): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const { running, waiting } = taskCounts(cluster);
  const spilled = sum((cluster.state?.workers ?? []).map(spilledBytes));
  const parts =
    running + waiting > 0
      ? [trans.__('%1 running', running), trans.__('%1 waiting', waiting)]
      : [trans.__('idle')];
  const range = cluster.state?.adaptive_range;
  if (range) {
    parts.push(trans.__('%1 to %2 workers, as needed', range[0], range[1]));
  }
  if (spilled > 0) {
    parts.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  const held = resultBytes(cluster);
  if (held > 0) {
    parts.push(trans.__('holds %1 of results', formatBytes(held, units)));
  }
  return <span className="jp-GpuDask-secondary">{joinItems(parts)}</span>;
}

/** What a start waits for, the hosts that are lost, and the jobs without a worker. */
function Notes({ cluster }: { cluster: ICluster }): JSX.Element | null {
  const { trans } = useGpuDask();
  return cluster.notes.length > 0 ? (
    <ul
      className="jp-GpuDask-notes"
      aria-label={trans.__('Notes on %1', cluster.name)}
    >
      {cluster.notes.map(note => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  ) : null;
}

/** Who gets the GPUs of the idle cluster, and when, with a button to keep them. */
function Wanted({ cluster }: { cluster: ICluster }): JSX.Element | null {
  const gpuDask = useGpuDask();
  const { model, trans } = gpuDask;
  const { units } = model.settings.value;
  return cluster.given_over_at ? (
    <div className="jp-GpuDask-actions jp-GpuDask-wanted" role="alert">
      <span>{wantedSentences(cluster, units, gpuDask)}</span>
      <CommandButton
        command={CommandIDs.keep}
        args={{ kernelId: cluster.kernel_id }}
        label={trans.__('Keep')}
        target={cluster.name}
      />
    </div>
  ) : null;
}
