import {
  caretDownIcon,
  ellipsesIcon,
  listIcon,
  runIcon,
  settingsIcon,
  stopIcon
} from '@jupyterlab/ui-components';
import React from 'react';

import type { MenuGroups } from '../cluster/menu';
import { limitOf } from '../cluster/offered';
import { CommandIDs } from '../commandIDs';
import { CommandButton } from '../components/commandButton';
import { useGpuDask } from '../components/context';
import { useKeptFocus } from '../components/focus';
import { areOptionsRefused, canStartOnFree } from '../errors';
import { plotsIcon } from '../icons';
import { ICluster } from '../model/api';

const MORE: MenuGroups = [
  [
    CommandIDs.openLayout,
    CommandIDs.openDashboard,
    CommandIDs.closePlots,
    CommandIDs.scale,
    CommandIDs.release,
    CommandIDs.restart
  ],
  [CommandIDs.insertCode, CommandIDs.copyCode]
];

type CommandButtonProps = React.ComponentProps<typeof CommandButton>;

interface IActionsProps {
  cluster: ICluster;
  /** Whether the GPUs for which the cluster could not start are free again. */
  isFreeAgain: boolean;
}

/** The buttons of a cluster; they are not rendered again when only metrics change. */
export const ClusterActions = React.memo(
  ActionButtons,
  (old, { cluster, isFreeAgain }) =>
    old.isFreeAgain === isFreeAgain &&
    (['status', 'name', 'reason', 'dashboard', 'joined', 'log'] as const).every(
      name => old.cluster[name] === cluster[name]
    )
);

function ActionButtons({ cluster, isFreeAgain }: IActionsProps): JSX.Element {
  const { trans } = useGpuDask();
  const shared = {
    args: { kernelId: cluster.kernel_id },
    target: cluster.name
  };
  const limited = (
    command: string
  ): Pick<CommandButtonProps, 'command' | 'limit'> => ({
    command,
    limit: limitOf(command, cluster)
  });
  const isReady = cluster.status === 'ready';
  const hasEnded = cluster.status === 'failed' || cluster.status === 'closed';
  return (
    <div className="jp-GpuDask-actions">
      {isReady && (cluster.dashboard || cluster.limits.dashboard) && (
        <span className="jp-GpuDask-split">
          <CommandButton
            {...shared}
            {...limited(CommandIDs.openPlots)}
            label={trans.__('Plots')}
            icon={plotsIcon}
          />
          <CommandButton
            {...shared}
            {...limited(CommandIDs.choosePlot)}
            label={trans.__('Choose a plot')}
            icon={caretDownIcon}
            variant="icon"
          />
        </span>
      )}
      {hasEnded && <StartButtons {...{ cluster, isFreeAgain, shared }} />}
      {(isReady || cluster.log) && (
        <CommandButton
          {...shared}
          command={CommandIDs.showLogs}
          label={trans.__('Logs')}
          icon={listIcon}
        />
      )}
      {(isReady || cluster.status === 'starting') && (
        <CommandButton
          {...shared}
          {...limited(CommandIDs.stop)}
          label={trans.__('Stop')}
          icon={stopIcon}
        />
      )}
      {isReady && <MoreButton cluster={cluster} />}
    </div>
  );
}

/** A button that opens a menu of the other commands. */
function MoreButton({ cluster }: { cluster: ICluster }): JSX.Element {
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
            MORE,
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

interface IStartButtonsProps extends IActionsProps {
  shared: Pick<CommandButtonProps, 'args' | 'target'>;
}

/** The buttons that start a cluster again; if its options were refused, on other GPUs or with other options. */
function StartButtons({
  cluster,
  isFreeAgain,
  shared
}: IStartButtonsProps): JSX.Element {
  const { trans } = useGpuDask();
  const restart = {
    command: CommandIDs.restart,
    label: trans.__('Start again'),
    icon: runIcon
  };
  const areRefused = !isFreeAgain && areOptionsRefused(cluster, trans);
  const changeOptions = {
    command: CommandIDs.startWithOptions,
    label: areRefused ? trans.__('Change options…') : trans.__('Options…'),
    icon: settingsIcon
  };
  const onFree = {
    command: CommandIDs.startOnFree,
    label: trans.__('Start on the free GPUs'),
    icon: runIcon
  };
  const buttons =
    areRefused && canStartOnFree(cluster)
      ? [onFree, changeOptions]
      : areRefused
        ? [changeOptions, restart]
        : [restart, changeOptions];
  return (
    <>
      {buttons.map(button => (
        <CommandButton key={button.command} {...shared} {...button} />
      ))}
    </>
  );
}
