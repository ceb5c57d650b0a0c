import {
  addBelowIcon,
  caretDownIcon,
  copyIcon,
  launchIcon,
  listIcon,
  refreshIcon,
  runIcon,
  settingsIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import {
  resultBytes,
  spilledBytes,
  summarize,
  taskCounts
} from '../cluster/summary';
import { CommandIDs } from '../commandIDs';
import { Card } from '../components/card';
import { CodeText } from '../components/codeText';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/context';
import { StateLabel } from '../components/stateLabel';
import { endReason, areOptionsRefused } from '../errors';
import { formatBytes, sum } from '../format';
import { scaleIcon } from '../icons';
import { ICluster } from '../model/api';
import { WorkerList } from './workerList';

interface IClusterCardProps {
  cluster: ICluster;
  isCurrent: boolean;
}

/** A cluster: its notebook, state, workers and buttons. */
export function ClusterCard({
  cluster,
  isCurrent
}: IClusterCardProps): JSX.Element {
  const { model, trans } = useGpuDask();
  const { showWorkers } = model.settings.value;
  const summary = summarize(cluster, model.gpus?.gpus ?? [], trans);
  return (
    <Card
      version={[
        cluster.name,
        summary.state,
        summary.engine,
        cluster.reason
      ].join()}
      data-current={isCurrent}
      aria-label={trans.__('Cluster of %1', cluster.name)}
    >
      <div className="jp-GpuDask-cardHeader">
        <h3 title={cluster.notebooks.join('\n') || cluster.name}>
          <span className="jp-GpuDask-name">{cluster.name}</span>
        </h3>
        <span className="jp-GpuDask-details">{summary.engine}</span>
      </div>
      <div className="jp-GpuDask-stateLine">
        <StateLabel summary={summary} />
        {cluster.status === 'ready' && <TaskStatus cluster={cluster} />}
      </div>
      <Reason cluster={cluster} />
      {cluster.status === 'ready' && cluster.state && showWorkers && (
        <WorkerList
          workers={cluster.state.workers}
          label={trans.__('Workers of %1', cluster.name)}
        />
      )}
      <Actions cluster={cluster} />
    </Card>
  );
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
  if (spilled > 0) {
    parts.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  const held = resultBytes(cluster);
  if (held > 0) {
    parts.push(trans.__('holds %1 of results', formatBytes(held, units)));
  }
  return <span className="jp-GpuDask-secondary">{parts.join(', ')}</span>;
}

/** Why a cluster has ended, or why it uses the CPU stand-in. */
function Reason({ cluster }: { cluster: ICluster }): JSX.Element | null {
  const { trans } = useGpuDask();
  const hasEnded = cluster.status === 'failed' || cluster.status === 'closed';
  const { reason, fix } = endReason(cluster, trans);
  const text = hasEnded ? `${reason} ${fix}`.trim() : cluster.stand_in;
  return text ? (
    <p className="jp-GpuDask-reason">
      <CodeText text={text} />
    </p>
  ) : null;
}

/** The buttons; they are not rendered again when only metrics change. */
const Actions = React.memo(ActionButtons, (old, { cluster }) =>
  (['status', 'name', 'dashboard', 'log'] as const).every(
    name => old.cluster[name] === cluster[name]
  )
);

function ActionButtons({ cluster }: { cluster: ICluster }): JSX.Element {
  const { trans } = useGpuDask();
  const shared = {
    args: { kernelId: cluster.kernel_id },
    target: cluster.name,
    variant: 'icon' as const
  };
  const isReady = cluster.status === 'ready';
  const hasEnded = cluster.status === 'failed' || cluster.status === 'closed';
  return (
    <div className="jp-GpuDask-actions">
      {isReady && cluster.dashboard && (
        <CommandButton
          {...shared}
          command={CommandIDs.openDashboard}
          label={trans.__('Dashboard')}
          icon={launchIcon}
          variant="text"
        />
      )}
      {isReady && cluster.dashboard && (
        <CommandButton
          {...shared}
          command={CommandIDs.choosePlot}
          label={trans.__('Plots')}
          icon={caretDownIcon}
        />
      )}
      {hasEnded && <StartButtons cluster={cluster} shared={shared} />}
      <span className="jp-GpuDask-icons">
        {(isReady || cluster.status === 'starting') && (
          <CommandButton
            {...shared}
            command={CommandIDs.scale}
            label={trans.__('Scale')}
            icon={scaleIcon}
          />
        )}
        {isReady && (
          <CommandButton
            {...shared}
            command={CommandIDs.insertCode}
            label={trans.__('Insert code for the Dask client')}
            icon={addBelowIcon}
          />
        )}
        {isReady && (
          <CommandButton
            {...shared}
            command={CommandIDs.copyCode}
            label={trans.__('Copy code for the Dask client')}
            icon={copyIcon}
          />
        )}
        {(isReady || endReason(cluster, trans).log) && (
          <CommandButton
            {...shared}
            command={CommandIDs.showLogs}
            label={trans.__('Logs')}
            icon={listIcon}
          />
        )}
        {isReady && (
          <CommandButton
            {...shared}
            command={CommandIDs.restart}
            label={trans.__('Restart')}
            icon={refreshIcon}
          />
        )}
        {(isReady || cluster.status === 'starting') && (
          <CommandButton
            {...shared}
            command={CommandIDs.stop}
            label={trans.__('Stop')}
            icon={stopIcon}
          />
        )}
      </span>
    </div>
  );
}

interface IStartButtonsProps {
  cluster: ICluster;
  shared: Pick<
    React.ComponentProps<typeof CommandButton>,
    'args' | 'target' | 'variant'
  >;
}

/** The buttons that start a cluster again; if its options were refused, changing them comes first. */
function StartButtons({ cluster, shared }: IStartButtonsProps): JSX.Element {
  const { trans } = useGpuDask();
  const restart = {
    command: CommandIDs.restart,
    label: trans.__('Start again'),
    icon: runIcon
  };
  const areRefused = areOptionsRefused(cluster, trans);
  const changeOptions = {
    command: CommandIDs.startWithOptions,
    label: areRefused
      ? trans.__('Change options…')
      : trans.__('Start with options…'),
    icon: settingsIcon
  };
  const [first, second] = areRefused
    ? [changeOptions, restart]
    : [restart, changeOptions];
  return (
    <>
      <CommandButton {...shared} {...first} variant="text" />
      <CommandButton {...shared} {...second} />
    </>
  );
}
