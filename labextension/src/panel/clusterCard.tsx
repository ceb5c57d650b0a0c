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

import { CommandIDs } from '../commandIDs';
import { Card } from '../components/card';
import { CodeText } from '../components/codeText';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/context';
import { StateMark } from '../components/stateLabel';
import { endOf, isOrderRefused } from '../errors';
import {
  formatBytes,
  heldBy,
  spilledBy,
  sum,
  summarize,
  tasksOf
} from '../format';
import { scaleIcon } from '../icons';
import { ICluster } from '../model/api';
import { WorkerList } from './workerList';

interface IClusterCardProps {
  cluster: ICluster;
  isCurrent: boolean;
}

/** One cluster: whose it is, how it is, what its workers do, and what can be done with it. */
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
      <div className="jp-GpuDask-cardHead">
        <h3 title={cluster.notebooks.join('\n') || cluster.name}>
          <span className="jp-GpuDask-name">{cluster.name}</span>
        </h3>
        <span className="jp-GpuDask-aside">{summary.engine}</span>
      </div>
      <div className="jp-GpuDask-stateLine">
        <StateMark summary={summary} />
        {cluster.status === 'ready' && <Work cluster={cluster} />}
      </div>
      <Why cluster={cluster} />
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

/** What it has to do, and what did not fit. */
function Work({ cluster }: { cluster: ICluster }): JSX.Element {
  const { model, trans } = useGpuDask();
  const { units } = model.settings.value;
  const { running, waiting } = tasksOf(cluster);
  const spilled = sum((cluster.state?.workers ?? []).map(spilledBy));
  const words =
    running + waiting > 0
      ? [trans.__('%1 running', running), trans.__('%1 waiting', waiting)]
      : [trans.__('idle')];
  if (spilled > 0) {
    words.push(trans.__('%1 spilled', formatBytes(spilled, units)));
  }
  const held = heldBy(cluster);
  if (held > 0) {
    words.push(trans.__('holds %1 of results', formatBytes(held, units)));
  }
  return <span className="jp-GpuDask-quiet">{words.join(', ')}</span>;
}

/** Why it is as it is, where there is something to say. */
function Why({ cluster }: { cluster: ICluster }): JSX.Element | null {
  const { trans } = useGpuDask();
  const isOver = cluster.status === 'failed' || cluster.status === 'closed';
  const { reason, fix } = endOf(cluster, trans);
  const said = isOver ? `${reason} ${fix}`.trim() : cluster.stand_in;
  return said ? (
    <p className="jp-GpuDask-why">
      <CodeText text={said} />
    </p>
  ) : null;
}

/** Drawn anew when what can be done is another, not for each metric. */
const Actions = React.memo(AllActions, (old, { cluster }) =>
  (['status', 'name', 'dashboard', 'log'] as const).every(
    name => old.cluster[name] === cluster[name]
  )
);

function AllActions({ cluster }: { cluster: ICluster }): JSX.Element {
  const { trans } = useGpuDask();
  const shared = {
    args: { kernelId: cluster.kernel_id },
    about: cluster.name,
    look: 'icon' as const
  };
  const isReady = cluster.status === 'ready';
  const isOver = cluster.status === 'failed' || cluster.status === 'closed';
  return (
    <div className="jp-GpuDask-actions">
      {isReady && cluster.dashboard && (
        <CommandButton
          {...shared}
          command={CommandIDs.openDashboard}
          label={trans.__('Dashboard')}
          icon={launchIcon}
          look="text"
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
      {isOver && <StartButtons cluster={cluster} shared={shared} />}
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
            label={trans.__('Insert code that gets the client')}
            icon={addBelowIcon}
          />
        )}
        {isReady && (
          <CommandButton
            {...shared}
            command={CommandIDs.copyCode}
            label={trans.__('Copy code that gets the client')}
            icon={copyIcon}
          />
        )}
        {(isReady || endOf(cluster, trans).log) && (
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
    'args' | 'about' | 'look'
  >;
}

/** A cluster that ran is started as it was; an order that was refused is changed first. */
function StartButtons({ cluster, shared }: IStartButtonsProps): JSX.Element {
  const { trans } = useGpuDask();
  const again = {
    command: CommandIDs.restart,
    label: trans.__('Start again'),
    icon: runIcon
  };
  const isRefused = isOrderRefused(cluster, trans);
  const change = {
    command: CommandIDs.startWithOptions,
    label: isRefused
      ? trans.__('Change options…')
      : trans.__('Start with options…'),
    icon: settingsIcon
  };
  const [first, second] = isRefused ? [change, again] : [again, change];
  return (
    <>
      <CommandButton {...shared} {...first} look="text" />
      <CommandButton {...shared} {...second} />
    </>
  );
}
