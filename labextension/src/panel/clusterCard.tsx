import {
  caretDownIcon,
  ellipsesIcon,
  listIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import type { MenuGroups } from '../cluster/menu';
import { limitOf } from '../cluster/offered';
import {
  reasonText,
  resultBytes,
  snapshot,
  spilledBytes,
  taskCounts,
  IAction,
  IProgress
} from '../cluster/snapshot';
import { wantedSentences } from '../cluster/warnings';
import { CommandIDs } from '../commandIDs';
import { Card, Meter, Unchanged } from '../components/card';
import { CellList } from '../components/cellList';
import { ClusterBadge, ShortName } from '../components/clusterName';
import { CommandButton } from '../components/commandButton';
import { useKeptFocus } from '../components/focus';
import { useGpuDask } from '../components/liveWidget';
import { CodeText } from '../components/notice';
import { relatedTo } from '../components/related';
import { StateIcon, StateLabel } from '../components/stateLabel';
import { formatBytes, formatCount, joinItems, sum } from '../format';
import { plotsIcon } from '../icons';
import { ICluster, isShared, IWorker } from '../model/api';
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
  const { model, trans, current } = gpuDask;
  const { showWorkers } = model.settings.value;
  const now = snapshot(cluster, gpuDask);
  const reason = reasonText(now);
  const isIdle =
    cluster.status === 'ready' &&
    !cluster.busy &&
    cluster.state?.tasks_unfinished === 0 &&
    resultBytes(cluster) === 0;
  // What somebody else's notebook does not do needs one line.
  const isShort = isIdle && !isCurrent && !reason && !cluster.given_over_at;
  const version = [
    cluster.name,
    now.state,
    now.engine,
    reason,
    cluster.notes,
    isShort,
    cluster.given_over_at
  ].join();
  const starts = now.starts.map(({ label }) => label).join();
  const { dashboard, joined, log, notebooks, kernel_id: id } = cluster;
  return (
    <Card
      version={version}
      data-current={isCurrent}
      data-kernel={cluster.kernel_id}
      {...relatedTo(id, model.ownerOf(id))}
      tabIndex={-1}
      data-short={isShort}
      aria-label={
        isShared(id) ? cluster.name : trans.__('Cluster of %1', cluster.name)
      }
    >
      <Unchanged
        by={[version, notebooks, model.numberOf(id), current.isOpen(id)]}
      >
        <div className="jp-GpuDask-cardHeader">
          <h3>
            {isShort && <StateIcon kind={now.kind} />}
            <ClusterBadge kernelId={cluster.kernel_id} />
            <NotebookName cluster={cluster} />
          </h3>
          <span className="jp-GpuDask-details">
            <span>{now.engine}</span>
            {isShort && <span>{trans.__('idle')}</span>}
          </span>
          {isShort && <MoreButton cluster={cluster} groups={ALL} />}
        </div>
      </Unchanged>
      {!isShort && (
        <div className="jp-GpuDask-stateLine">
          <StateLabel now={now} />
          {cluster.status === 'ready' && (
            <TaskStatus cluster={cluster} progress={now.progress} />
          )}
        </div>
      )}
      {now.progress && (
        <Meter
          label={trans.__('Progress of %1', cluster.name)}
          percent={now.progress.percent}
          text={now.progress.done}
          kind="busy"
        />
      )}
      {!isShort && <Cells cluster={cluster} isOpen={isCurrent} />}
      {reason && (
        <div className="jp-GpuDask-reason" data-kind={now.kind}>
          <strong>
            <CodeText text={now.reason.message} />
          </strong>
          {now.starts.length > 2 ? (
            <details>
              <summary>{trans.__('Details')}</summary>
              <CodeText text={now.reason.fix} />
              <StartButtons
                cluster={cluster}
                starts={now.starts.slice(MOST_STARTS)}
              />
            </details>
          ) : (
            now.reason.fix && <CodeText text={` ${now.reason.fix}`} />
          )}
        </div>
      )}
      <Notes cluster={cluster} />
      <Wanted cluster={cluster} />
      {!isShort && (
        <Unchanged by={[version, dashboard, joined, log, starts]}>
          <ClusterActions
            cluster={cluster}
            starts={now.starts.slice(0, MOST_STARTS)}
          />
        </Unchanged>
      )}
      {cluster.status === 'ready' &&
        cluster.state &&
        showWorkers &&
        !(isIdle && cluster.state.workers.every(isQuiet)) && (
          <WorkerList
            workers={cluster.state.workers}
            label={trans.__('Workers of %1', cluster.name)}
          />
        )}
    </Card>
  );
}

/** What else starts a cluster again is below its details. */
const MOST_STARTS = 3;

/** The buttons that start a cluster again. */
function StartButtons({ cluster, starts }: IActionsProps): JSX.Element | null {
  return starts.length === 0 ? null : (
    <div className="jp-GpuDask-actions">
      {starts.map(button => (
        <CommandButton
          key={button.label}
          target={cluster.name}
          {...button}
          args={{ kernelId: cluster.kernel_id, ...button.args }}
        />
      ))}
    </div>
  );
}

/** Whether a worker of this machine has nothing to report. */
function isQuiet(worker: IWorker): boolean {
  return (
    worker.status === 'running' &&
    worker.gpu_index !== null &&
    spilledBytes(worker) === 0
  );
}

/** The cell that runs, and below it the last ones; folded in the card of another notebook. */
function Cells({
  cluster,
  isOpen
}: {
  cluster: ICluster;
  isOpen: boolean;
}): JSX.Element | null {
  const { trans } = useGpuDask();
  const { cells, kernel_id, notebooks, name, status } = cluster;
  if (cells.length === 0 || status !== 'ready') {
    return null;
  }
  const all = cells
    .map(cell => ({ ...cell, kernel_id, notebook: notebooks[0] ?? name }))
    .reverse();
  const [running, ended] = [true, false].map(isRunning =>
    all.filter(({ seconds }) => (seconds === null) === isRunning)
  );
  return (
    <>
      {running.length > 0 && (
        <CellList
          cells={running}
          label={trans.__('Running cell of %1', name)}
        />
      )}
      {ended.length > 0 && (
        <details className="jp-GpuDask-lastCells" open={isOpen}>
          <summary>{trans.__('Last cells')}</summary>
          <CellList
            cells={ended.slice(0, 5)}
            label={trans.__('Last cells of %1', name)}
          />
        </details>
      )}
    </>
  );
}

/** The name of the notebook: a button that shows it, if it can be shown. */
function NotebookName({ cluster }: { cluster: ICluster }): JSX.Element {
  const { current, commands, trans } = useGpuDask();
  const ref = useKeptFocus();
  const { kernel_id: kernelId, notebooks } = cluster;
  // A console has no file.
  const path =
    !isShared(kernelId) && notebooks.find(each => each.endsWith('.ipynb'));
  const paths = notebooks.join('\n') || cluster.name;
  return path || current.isOpen(kernelId) ? (
    <button
      ref={ref}
      type="button"
      className="jp-GpuDask-name jp-GpuDask-link"
      title={trans.__('Show %1', paths)}
      aria-label={cluster.name}
      onClick={() =>
        void commands.execute(CommandIDs.showCell, { kernelId, path })
      }
    >
      <ShortName name={cluster.name} />
    </button>
  ) : (
    <span className="jp-GpuDask-name" title={paths}>
      <ShortName name={cluster.name} />
    </span>
  );
}

interface ITaskStatusProps {
  cluster: ICluster;
  progress: IProgress | null;
}

/** What is done, and how much is spilled and held. */
function TaskStatus({ cluster, progress }: ITaskStatusProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const { running, waiting } = taskCounts(cluster);
  const workers = cluster.state?.workers ?? [];
  const spilled = sum(workers.map(spilledBytes));
  const inQuery = workers.filter(({ polars }) => polars).length;
  const parts = progress
    ? [progress.done, progress.left]
    : running + waiting > 0
      ? [
          trans.__('%1 running', formatCount(running)),
          trans.__('%1 waiting', formatCount(waiting))
        ]
      : inQuery > 0
        ? [
            trans.__(
              'Polars query, %1 of %2 GPUs busy',
              inQuery,
              workers.length
            )
          ]
        : [cluster.busy ? trans.__('running a cell') : trans.__('idle')];
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
  if (cluster.notes.length === 0) {
    return null;
  }
  const notes = (
    <ul
      className="jp-GpuDask-notes"
      aria-label={trans.__('Notes on %1', cluster.name)}
    >
      {cluster.notes.map(note => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
  // The state has the place in line, and the list of the GPUs who has reserved them.
  return cluster.place > 0 ? (
    <details className="jp-GpuDask-reason">
      <summary>{trans.__('Details')}</summary>
      {notes}
    </details>
  ) : (
    notes
  );
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

const MORE: MenuGroups = [
  [
    CommandIDs.openDashboard,
    CommandIDs.closePlots,
    CommandIDs.scale,
    CommandIDs.release,
    CommandIDs.restart
  ],
  [CommandIDs.insertCode, CommandIDs.copyCode]
];

/** In a card without buttons. */
const ALL: MenuGroups = [
  [CommandIDs.openPlots, CommandIDs.choosePlot, CommandIDs.showLogs],
  ...MORE,
  [CommandIDs.stop]
];

interface IActionsProps {
  cluster: ICluster;
  /** What starts it again. */
  starts: IAction[];
}

/** The buttons of a cluster. */
export function ClusterActions({
  cluster,
  starts
}: IActionsProps): JSX.Element {
  const { trans } = useGpuDask();
  const { kernel_id: kernelId, name: target } = cluster;
  const shared = { args: { kernelId }, target };
  const isReady = cluster.status === 'ready';
  return (
    <div className="jp-GpuDask-actions">
      {isReady && (cluster.dashboard || cluster.limits.dashboard) && (
        <span className="jp-GpuDask-split">
          <CommandButton
            {...shared}
            command={CommandIDs.openPlots}
            limit={limitOf(CommandIDs.openPlots, cluster)}
            label={trans.__('Plots')}
            icon={plotsIcon}
          />
          <CommandButton
            {...shared}
            command={CommandIDs.choosePlot}
            limit={limitOf(CommandIDs.choosePlot, cluster)}
            label={trans.__('Choose a plot')}
            icon={caretDownIcon}
            variant="icon"
          />
        </span>
      )}
      {starts.map(button => (
        <CommandButton
          key={button.label}
          target={target}
          {...button}
          args={{ kernelId, ...button.args }}
        />
      ))}
      {(isReady || cluster.log) && (
        <CommandButton
          {...shared}
          command={CommandIDs.showLogs}
          label={trans.__('Logs')}
          icon={listIcon}
        />
      )}
      {(isReady || cluster.status === 'starting') && (
        <span className="jp-GpuDask-apart">
          <CommandButton
            {...shared}
            command={CommandIDs.stop}
            limit={limitOf(CommandIDs.stop, cluster)}
            label={trans.__('Stop')}
            icon={stopIcon}
          />
        </span>
      )}
      {isReady && <MoreButton cluster={cluster} groups={MORE} />}
    </div>
  );
}

/** A button that opens a menu of the other commands. */
function MoreButton({
  cluster,
  groups
}: {
  cluster: ICluster;
  groups: MenuGroups;
}): JSX.Element {
  const { commands, trans } = useGpuDask();
  const ref = useKeptFocus();
  return (
    <button
      ref={ref}
      type="button"
      className="jp-GpuDask-button jp-mod-icon jp-GpuDask-more"
      aria-haspopup="menu"
      aria-label={trans.__('More actions: %1', cluster.name)}
      title={trans.__('More actions')}
      onClick={({ currentTarget }) =>
        void import('../cluster/menu').then(({ openClusterMenu }) =>
          openClusterMenu(
            commands,
            groups,
            cluster,
            { kernelId: cluster.kernel_id },
            currentTarget
          )
        )
      }
    >
      <ellipsesIcon.react tag="span" aria-hidden="true" />
    </button>
  );
}
